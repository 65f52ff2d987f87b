// Package main runs an API server of Kubernetes with etcd inside, until it is ended: all that checks manifests needs.
//
//	apiserver FOLDER ETCD_PORT OPTIONS-OF-KUBE-APISERVER...
package main

import (
	"log"
	"net/url"
	"os"
	"path/filepath"

	"go.etcd.io/etcd/server/v3/embed"
	"k8s.io/component-base/cli"
	"k8s.io/kubernetes/cmd/kube-apiserver/app"
)

func main() {
	config := embed.NewConfig()
	config.Dir = filepath.Join(os.Args[1], "etcd")
	config.LogLevel = "error"
	clients := url.URL{Scheme: "http", Host: "127.0.0.1:" + os.Args[2]}
	peers := url.URL{Scheme: "unix", Host: "peer:0"}
	config.ListenClientUrls, config.AdvertiseClientUrls = []url.URL{clients}, []url.URL{clients}
	config.ListenPeerUrls, config.AdvertisePeerUrls = []url.URL{peers}, []url.URL{peers}
	config.InitialCluster = config.InitialClusterFromName(config.Name)
	if _, err := embed.StartEtcd(config); err != nil {
		log.Fatal(err)
	}
	command := app.NewAPIServerCommand()
	command.SetArgs(append([]string{"--etcd-servers=" + clients.String()}, os.Args[3:]...))
	os.Exit(cli.Run(command))
}
