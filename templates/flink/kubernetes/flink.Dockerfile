# Flink with Beam's runner in its lib directory: the image of JobManager, TaskManagers and Beam's job server.
#   docker build -f templates/flink/kubernetes/flink.Dockerfile -t REGISTRY/datasets-flink:1 templates/flink
FROM maven:3.9-eclipse-temurin-17 AS runner
COPY pom.xml /pom.xml
RUN mvn --quiet --batch-mode --file=/pom.xml dependency:copy-dependencies -DincludeScope=runtime -DoutputDirectory=/runner

FROM flink:1.19.3-java17
COPY --from=runner --chown=flink:flink /runner/ /opt/flink/lib/
# Beam's job server sends the jars of its class path along with each job, but for those under a directory of this name.
RUN mkdir -p /opt/gradle/wrapper && cp /opt/flink/lib/*.jar /opt/gradle/wrapper/
