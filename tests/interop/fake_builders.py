"""The builders of TFDS that are compared, each with its fake sources."""

from __future__ import annotations

from typing import Any

import numpy as np

from tests.interop.fake_sources import (
    ROWS,
    F,
    I,
    Source,
    jpg,
    json_of,
    jsonl,
    lines,
    npy,
    npz,
    packed,
    pixels,
    png,
    rows,
    tif,
    wav,
)

_SQUAD = json_of(
    {
        "data": [
            {
                "title": "T",
                "paragraphs": [
                    {
                        "context": "c ü",
                        "qas": rows({"id": "q{i}", "question": "q?", "answers": [{"answer_start": I, "text": "a"}]}),
                    }
                ],
            }
        ]
    }
)
_TOXIC = "text profanity sexually_explicit identity_attack flirtation threat insult severe_toxicity toxicity"

_TABLES: dict[str, Source] = {
    "titanic": {
        "": lines(
            "1,{b},N {i},male,2{i}.1,{i},0,T,7.2{i},C{i},S,2,?,X",
            "pclass,survived,name,sex,age,sibsp,parch,ticket,fare,cabin,embarked,boat,body,home.dest",
            30,
        )
    },
    "efron_morris75": {
        "": lines(
            "A{i}\tB\t45\t{i}\t0.4\t3{i}\t0.346\t367\t127\t{f}",
            "FirstName\tLastName\tAt-Bats\tHits\tBattingAverage\tRemainingAt-Bats\tRemainingAverage"
            "\tSeasonAt-Bats\tSeasonHits\tSeasonAverage",
        )
    },
    "howell": {"": lines("151.76{i};47.8;63.0;{b}", "height;weight;age;male")},
    "cherry_blossoms": {"": lines("80{i};NA;6.1;7.{i};NA", "year;doy;temp;temp_upper;temp_lower")},
    "corr2cause": {"": lines('"Premise {i}, x",{b}', "input,label")},
    "mctaco": {"": lines("s{i}\tq\ta\tyes\tEvent Duration")},
    "german_credit_numeric": {"": lines(" ".join(["{i}"] * 24) + " 2")},
    "iris": {"": {"iris.data": lines("5.{i},3.5,1.4,0.2,Iris-setosa")}},
    "wine_quality/red": {
        "": lines(
            "7.{i};0.7;0;1.9;0.076;11;34;0.9978;3.51;0.56;9.4;5",
            "fixed acidity;volatile acidity;citric acid;residual sugar;chlorides;free sulfur dioxide;"
            "total sulfur dioxide;density;pH;sulphates;alcohol;quality",
        )
    },
    "penguins/processed": {
        "": lines(
            "{b},0.25{i},0.666,0.152,0.2916", "species,culmen_length_mm,culmen_depth_mm,flipper_length_mm,body_mass_g"
        )
    },
    "penguins/simple": {
        "": lines(
            "Adelie,Dream,39.{i},NA,18{i},3750,FEMALE",
            "species,island,culmen_length_mm,culmen_depth_mm,flipper_length_mm,body_mass_g,sex",
        )
    },
    "forest_fires": {
        "": lines(
            "7,{i},mar,fri,86.2,26.2,94.3,5.1,8.2,51,6.7,0,{f}",
            "X,Y,month,day,FFMC,DMC,DC,ISI,temp,RH,wind,rain,area",
        )
    },
    "goemotions": {"": lines("text {i}\t{i},1{b}\tid{i}")},
    "hillstrom": {
        "": lines(
            "1{i},2) $100,142.44,1,0,Surburban,0,Phone,Womens E-Mail,0,0,{f}",
            "recency,history_segment,history,mens,womens,zip_code,newbie,channel,segment,visit,conversion,spend",
        )
    },
    "gap": {
        "": lines(
            "d-{i}\tText\ther\t27{i}\tA\t19\tTRUE\tB\t20\tFALSE\thttp://x",
            "ID\tText\tPronoun\tPronoun-offset\tA\tA-offset\tA-coref\tB\tB-offset\tB-coref\tURL",
        )
    },
    "clinc_oos": {
        "": {
            "train.csv|test.csv|val.csv|train_ood.csv|test_ood.csv|val_ood.csv": lines(
                "text {i},{i},1,name,dom", "text,intent,domain,intent_name,domain_name"
            )
        }
    },
    "esnli": {
        "esnli_train_1|dev|test": lines(
            "p{i},neutral,s1,s2,e1,e2,e3",
            "pairID,gold_label,Sentence1,Sentence2,Explanation_1,Explanation_2,Explanation_3",
        ),
        "esnli_train_2": lines("r{i},contradiction,s1,s2,e1", "pairID,gold_label,Sentence1,Sentence2,Explanation_1"),
    },
    "sci_tail": {
        "": {
            f"SciTailV1.1/tsv_format/scitail_1.0_{split}.tsv": lines("p{i}\th\tneutral")
            for split in ("train", "dev", "test")
        }
    },
    "snli": {
        "": {
            f"snli_1.0/snli_1.0_{split}.txt": lines("-\ta {i}\tb", "gold_label\tsentence1\tsentence2")
            for split in ("train", "dev", "test")
        }
    },
    "sentiment140": {
        "": {
            "training.1600000.processed.noemoticon.csv|testdata.manual.2009.06.14.csv": lines(
                '"4","{i}","Mon","Q","u","t {i}"'
            )
        }
    },
    "ag_news_subset": {"": {"ag_news_csv/train.csv|ag_news_csv/test.csv": lines('"1","T {i}","D, \\\\ é"')}},
    "yelp_polarity_reviews": {
        "": {"yelp_review_polarity_csv/train.csv|yelp_review_polarity_csv/test.csv": lines('"1","text {i} "')}
    },
    "multi_nli": {
        "": {
            f"multinli_1.0/multinli_1.0_{split}.txt": lines("neutral\t1\t2\t3\t4\tp {i}\th", "head")
            for split in ("train", "dev_matched", "dev_mismatched")
        }
    },
    "mtnt/en-fr": {"": {f"MTNT/{s}/{s}.en-fr.tsv": lines("{i}\tsrc\tdst é") for s in ("train", "test", "valid")}},
    "xnli": {
        "": {
            "XNLI-1.0/xnli.test.tsv|XNLI-1.0/xnli.dev.tsv": b"language\tgold_label\tsentence1\tsentence2\tpairID\n"
            + b"".join(
                lines(f"{language}\tneutral\ta {{i}} {language}\tb\t{{i}}")
                for language in "ar bg de el en es fr hi ru sw th tr ur vi zh".split()  # noqa: SIM905
            )
        }
    },
    "bucc/bucc_de": {
        "": {
            f"bucc2018/de-en/de-en.x.{kind}": lines(f"{'de-{i}' if kind == 'gold' else kind + '-{i}'}\ten-{{i}}")
            for kind in ("de", "en", "gold")
        }
    },
}
_LINES: dict[str, Source] = {
    "rock_you": {"": lines("pass{i}")},
    "tiny_shakespeare": {"": lines("To be, or not {i}", n=30)},
    "lambada": {"": {f"lambada_{part}_plain_text.txt": lines("text {i}") for part in ("development", "test")}},
    "definite_pronoun_resolution": {"": lines("S {i}\nit\na, b\nb\n")},
    "librispeech_lm": {"": lines("LINE {i}")},
    "multi_news": {"src": lines("a NEWLINE_CHAR b{i}"), "tgt": lines("- c{i}")},
    "lm1b": {
        "": {
            f"1-billion-word-language-modeling-benchmark-r13output/{kind}-monolingual.tokenized.shuffled/{name}": lines(
                "line {i}"
            )
            for kind, name in [("training", "news.en-1"), ("training", "news.en-2"), ("heldout", "news.en.heldout-0")]
        }
    },
    "imdb_reviews": {
        "": {
            f"aclImdb/{split}/{k}/{i}.txt": b"text " + bytes([48 + i])
            for split in ("train", "test")
            for k in ("neg", "pos", "unsup")
            for i in range(3)
        }
    },
    "conll2003": {
        "": {
            f"{split}.txt": b"-DOCSTART- -X- O O\n\nEU NNP I-NP I-ORG\nrejects VBZ I-VP O\n\nPeter NNP I-NP I-PER\n\n"
            for split in ("train", "valid", "test")
        }
    },
    "scan/simple": {
        "": {
            f"SCAN-master/simple_split/tasks_{s}_simple.txt": lines("IN: jump {i} OUT: I_JUMP")
            for s in ("train", "test")
        }
    },
}
_JSON: dict[str, Source] = {
    "databricks_dolly": {"": jsonl({"instruction": "i{i}", "context": "", "response": "r", "category": "c"})},
    "natural_questions_open": {"": jsonl({"question": "q{i}", "answer": ["a", "b{i}"]})},
    "gsm8k": {"": jsonl({"question": "q{i}", "answer": "so #### {i}"})},
    "samsum": {"manual/train.json|val.json|test.json": json_of(rows({"id": "{i}", "summary": "s", "dialogue": "d"}))},
    "race/high": {
        "": {
            f"RACE/{split}/high/{i}.txt": json_of(
                {
                    "id": "high{i}.txt",
                    "article": "a",
                    "questions": ["q", "r"],
                    "answers": ["A"],
                    "options": [["a", "b"], ["c"]],
                },
                i,
            )
            for split in ("train", "dev", "test")
            for i in range(3)
        }
    },
    "mlqa/de": {"": {f"MLQA_V1/{split}/{split}-context-de-question-de.json": _SQUAD for split in ("test", "dev")}},
    "squad/v1.1": {"": _SQUAD},
    "xquad/de": {"": _SQUAD},
    "answer_equivalence": {
        "": jsonl(
            {
                "qid": "q{i}",
                "gold_index": I,
                "context": "c",
                "question": "q",
                "reference": "r",
                "candidate": "c",
                "score": F,
                "raw_rating": ["yes", "no", "null", "null"],
            }
        )
    },
    "billsum": {
        "": {
            f"{split}_data_final_OFFICIAL.jsonl": jsonl(
                {"bill_id": "b{i}", "external_id": "e{i}", "text": "t", "summary": "s", "title": "i"}
            )
            for split in ("us_train", "us_test", "ca_test")
        }
    },
    "bool_q": {"": jsonl({"question": "q{i}", "passage": "p", "answer": True, "title": "t"})},
    "real_toxicity_prompts": {
        "": {
            "realtoxicityprompts-data/prompts.jsonl": jsonl(
                {
                    "filename": "f{i}",
                    "begin": I,
                    "end": 340,
                    "challenging": False,
                    **{
                        part: dict.fromkeys(_TOXIC.split(), F) | {"text": "x{i}"} for part in ("prompt", "continuation")
                    },
                }
            )
        }
    },
    "qasc": {
        "": {
            "QASC_Dataset/train.jsonl|QASC_Dataset/dev.jsonl|QASC_Dataset/test.jsonl": jsonl(
                {
                    "id": "{i}",
                    "question": {"stem": "s", "choices": [{"text": "t", "label": "A"}, {"text": "u{i}", "label": "B"}]},
                }
            )
        }
    },
    "cosmos_qa": {
        ".csv": lines("{i},c,q,a0,a1,a2,a3,{b}", "id,context,question,answer0,answer1,answer2,answer3,label"),
        ".jsonl": jsonl({"id": "{i}", "context": "c", "question": "q"} | {f"answer{i}": "a" for i in range(4)}),
    },
    "web_questions": {
        "": json_of(rows({"url": "u{i}", "utterance": "w", "targetValue": '(list (description "A B"))'}))
    },
    "openbookqa": {
        "": {
            f"OpenBookQA-V1-Sep2018/Data/Additional/{s}_complete.jsonl": jsonl(
                {
                    "id": "{i}",
                    "question": {"stem": "s", "choices": [{"text": c} for c in "abcd"]},
                    "fact1": "f",
                    "humanScore": "1.{i}",
                    "clarity": F,
                    "turkIdAnonymized": "t",
                    "answerKey": "B",
                }
            )
            for s in ("train", "dev", "test")
        }
    },
    "winogrande": {
        "": {
            f"winogrande_1.1/{s}.jsonl": jsonl(
                {"qID": "{i}", "sentence": "_", "option1": "a", "option2": "b"}
                | ({} if s == "test" else {"answer": "2"})
            )
            for s in ("train_xs", "train_s", "train_m", "train_l", "train_xl", "test", "dev")
        }
    },
    "math_qa": {
        "": {
            "train.json|dev.json|test.json": json_of(
                rows(
                    {
                        "Problem": "p{i}",
                        "Rationale": "r",
                        "options": "a ) 1, b ) 2",
                        "correct": "b",
                        "annotated_formula": "f",
                        "linear_formula": "l",
                        "category": "c",
                    }
                )
            )
        }
    },
    "reddit": {
        "": {"corpus-webis-tldr-17.json": jsonl({"author": "a{i}", "content": "c", "summary": "s", "id": "{i}"})}
    },
    "piqa": {
        "": {
            f"physicaliqa-train-dev/{s}{end}": content
            for s in ("train", "dev")
            for end, content in {
                ".jsonl": jsonl({"goal": "g{i}", "sol1": "a", "sol2": "ü", "id": "{i}"}),
                "-labels.lst": lines("{b}"),
            }.items()
        }
    },
    "scicite": {
        "": {
            f"scicite/{s}.jsonl": jsonl(
                {
                    "string": "s",
                    "label": "method",
                    "sectionName": "x",
                    "citingPaperId": "1",
                    "citedPaperId": "2",
                    "isKeyCitation": "true",
                    "citeEnd": 4,
                    "citeStart": 2,
                    "source": "explicit",
                    "id": "a",
                    "unique_id": "u{i}",
                    "excerpt_index": I,
                    "label_confidence": 0.7,
                },
                15,
            )
            for s in ("train", "dev", "test")
        }
    },
}
_OBJECT = (
    "<object><name>{name}</name><pose>Left</pose><truncated>1</truncated><difficult>0</difficult>"
    "<bndbox><xmin>10</xmin><ymin>20</ymin><xmax>33</xmax><ymax>47</ymax></bndbox></object>"
)
_SIZE = "<size><width>{0}</width><height>{1}</height><depth>3</depth></size>"
_QA = (
    "<q q_id='1'><q_str>Q?</q_str><answer a_id='1'>no</answer><answer a_id='2' correct='Yes'>yes</answer></q>"
    "<q q_id='2'><q_str>R?</q_str><answer a_id='1' correct='Yes'>é</answer></q>"
)
_ENTRY = (
    "<entry category='C' eid='Id{i}'><modifiedtripleset><mtriple>a | b | c</mtriple><mtriple>d | e | f</mtriple>"
    "</modifiedtripleset><lex>one</lex><lex>two</lex></entry>"
)


def _xml(*parts: str) -> bytes:
    return "".join(["<a>", *parts, "</a>"]).encode()


_COCO = {
    "images": rows({"id": I, "file_name": "{i}.jpg", "height": 40, "width": 50}),
    "categories": [{"id": i, "name": f"name {i}"} for i in range(80)],
    "annotations": rows(
        {"id": I, "image_id": I, "category_id": 7, "area": 12.75, "bbox": [1, 2, 3.5, 4], "iscrowd": 0}, 3
    ),
}
_XML: dict[str, Source] = {
    "coco/2017": {
        f"zips/{split}2017": {"|".join(f"{split}2017/{i}.jpg" for i in range(ROWS)): jpg(40, 50)}
        for split in ("train", "val", "test")
    }
    | {
        "annotations/": {
            "annotations/instances_train2017.json|annotations/instances_val2017.json": json_of(_COCO),
            "annotations/image_info_test2017.json": json_of(_COCO),
        }
    },
    "bccd": {
        "": {
            "BCCD_Dataset-1.0/BCCD": {
                "ImageSets/Main": {"train.txt": b"x1\nx2\n", "test.txt|val.txt": b"x3\n"},
                "JPEGImages/x1.jpg|JPEGImages/x2.jpg|JPEGImages/x3.jpg": jpg(480, 640),
                "Annotations/x1.xml|Annotations/x2.xml|Annotations/x3.xml": _xml(
                    _SIZE.format(640, 480), _OBJECT.format(name="RBC"), _OBJECT.format(name="WBC")
                ),
            }
        }
    },
    "voc/2007": {
        "": {
            "VOCdevkit/VOC2007": {
                "ImageSets/Main/train.txt|ImageSets/Main/val.txt|ImageSets/Main/test.txt": b"000001\n000002\n",
                "JPEGImages/000001.jpg|JPEGImages/000002.jpg": jpg(50, 40),
                "Annotations/000001.xml|Annotations/000002.xml": _xml(
                    _SIZE.format(40, 50), _OBJECT.format(name="Bird"), _OBJECT.format(name="cow")
                ),
            }
        }
    },
    "web_nlg": {
        "": {
            "webnlg-dataset-master/webnlg_challenge_2017": {
                "train/1triples/a.xml|train/b.xml|dev/c.xml|test/testdata_with_lex.xml"
                "|test/testdata_unseen_with_lex.xml": _xml(
                    "<entries>", *(_ENTRY.format(i=i) for i in (1, 2)), "</entries>"
                )
            }
        }
    },
    "qa4mre/2013.main.EN": {
        "": _xml(
            "<topic t_id='1' t_name='T'><reading-test r_id='3'><doc d_id='4'>D</doc>", _QA, "</reading-test></topic>"
        )
    },
    "oxford_iiit_pet": {
        "images.tar.gz": {"images/pug_1.jpg|images/Bengal_2.jpg": jpg(40, 30)},
        "annotations.tar.gz": {
            "annotations": {
                "trainval.txt|test.txt": b"pug_1 23 2 1\nBengal_2 6 1 1\n",
                "trimaps/pug_1.png|trimaps/Bengal_2.png": png(40, 30, 1),
                "xmls/pug_1.xml": _xml(_SIZE.format(60, 70), _OBJECT.format(name="dog")),
            }
        },
    },
}


def _each(kinds: str, path: str, content: Any, n: int = 2) -> dict[str, Any]:
    """Returns a file of each of some kinds."""
    return {path.format(kind=kind, i=i): content for kind in kinds.split() for i in range(n)}


_IMAGES: dict[str, Source] = {
    "deep_weeds": {
        "labels.csv": lines("{i}.jpg,{i},weed {i}", "Filename,Label,Species", 9),
        "": {"|".join(f"{i}.jpg" for i in range(9)): jpg(256, 256)},
    },
    "rock_paper_scissors": {"": _each("rock paper", "rps/{kind}/{kind}0{i}-00{i}.png", png(300, 300))},
    "horses_or_humans": {"": _each("horses humans", "{kind}/x-{i}.png", png(300, 300))},
    "tf_flowers": {"": _each("daisy roses", "p/{kind}/{i}.jpg", jpg(20, 9))},
    "beans": {"": _each("healthy bean_rust", "train/{kind}/{i}.jpg", jpg(500, 500))},
    "malaria": {"": _each("Parasitized Uninfected", "cell_images/{kind}/{i}.png", png(31, 12))},
    "cassava": {
        "": _each("cbb cmd", "cassavaleafdata/train/{kind}/t{i}{kind}.jpg", jpg(20, 30))
        | _each("test validation", "cassavaleafdata/{kind}/cgm/{i}.jpg", jpg(21, 30))
    },
    "dtd": {
        "": {"dtd/labels/train1.txt|dtd/labels/test1.txt|dtd/labels/val1.txt": lines("dotted/dotted_{i}.jpg")}
        | _each("dotted", "dtd/images/{kind}/{kind}_{i}.jpg", jpg(30, 33), ROWS)
    },
    "imagenette/160px": {"": _each("train val", "imagenette-160/{kind}/n01440764/{kind}{i}.JPEG", jpg(30, 33))},
    "imagenet_a": {"": _each("n01440764 n01443537", "imagenet-a/{kind}/{kind}{i}.jpg", jpg(30, 33))},
    "imagenet_r": {"": _each("n01443537 n01484850", "imagenet-r/{kind}/{kind}{i}.jpg", jpg(30, 33))},
    "resisc45": {"": b"", "manual/NWPU-RESISC45": _each("airport beach", "{kind}/{kind}{i}.jpg", jpg(256, 256))},
    "lfw": {"": _each("Ann_B Cy_D", "lfw/{kind}/{kind}_000{i}.jpg", jpg(250, 250))},
    "cycle_gan/maps": {"": _each("trainA trainB testA testB", "maps/{kind}/{i}_{kind}.jpg", jpg(30, 33))},
    "eurosat/rgb": {"": _each("Forest River", "2750/{kind}/{kind}_{i}.jpg", jpg(64, 64))},
    "uc_merced": {"": _each("forest river", "UCMerced_LandUse/Images/{kind}/{kind}0{i}.tif", tif(64, 60))},
    "colorectal_histology": {
        "": {
            f"Kather_texture_2016_image_tiles_5000/{kind}/1.tif": tif(150, 150)
            for kind in "01_TUMOR 02_STROMA 03_COMPLEX 04_LYMPHO 05_DEBRIS 06_MUCOSA 07_ADIPOSE 08_EMPTY".split()  # noqa: SIM905
        }
    },
    "stl10": {
        "": {
            "stl10_binary": {
                "class_names.txt": lines("class {i}", n=10),
                "train_X.bin|test_X.bin|unlabeled_X.bin": pixels(96, 96 * 3).tobytes(),
                "train_y.bin|test_y.bin": bytes((1, 5, 10)),
            }
        }
    },
    "cifar10": {
        "": {
            "cifar-10-batches-bin": {
                "batches.meta.txt": lines("class{i}", n=10) + b"\n",
                "|".join([*(f"data_batch_{i}.bin" for i in range(1, 6)), "test_batch.bin"]): (
                    b"\x07" + pixels(32, 32).tobytes()
                )
                * 2,
            }
        }
    },
    "cifar100": {
        "": {
            "cifar-100-binary": {
                "coarse_label_names.txt": lines("coarse{i}", n=20),
                "fine_label_names.txt": lines("fine{i}", n=100),
                "train.bin|test.bin": (b"\x07\x63" + pixels(32, 32).tobytes()) * 2,
            }
        }
    },
    "binarized_mnist": {"": lines(" ".join(["0", "1"] * 392))},
    "pneumonia_mnist": {
        "": npz(
            {
                f"{s}_{k}": v
                for s in ("train", "val", "test")
                for k, v in {
                    "images": pixels(28, 28, 4).transpose(2, 0, 1),
                    "labels": np.uint8([[1], [0], [1], [1]]),
                }.items()
            }
        )
    },
    "symmetric_solids": {
        "": {
            "train|test": {
                "rotations.npz": npz({k: np.arange(54.0).reshape(2, 3, 3, 3) / 7 for k in ("cube", "tet")}),
                "images/cube_000000.png|images/tet_000001.png": png(224, 224),
            }
        }
    },
    "moving_mnist": {"": npy(pixels(20 * 3, 64 * 64).reshape(20, -1, 64, 64)[:, :3])},
    "caltech101": {
        "": {
            "caltech-101/101_ObjectCategories.tar.gz": packed(
                _each("Faces anchor", "101_ObjectCategories/{kind}/image_00{i}.jpg", jpg(20, 30), 31), "a.tar.gz"
            )
        }
    },
}
_AUDIO: dict[str, Source] = {
    "crema_d": {
        "crema_d.txt": b"",
        "summaryTable": lines('"{i}","100{i}_ITH_HAP_XX"', '"","FileName"', 9),
        "AudioWAV": wav(900),
    },
    "yes_no": {"": {"waves_yesno/0_0_1_1.wav|waves_yesno/1_0.wav": wav(800, 8000)}},
    "gtzan": {"": _each("blues rock", "genres/{kind}/{kind}.0000{i}.wav", wav(800, 22050))},
    "gtzan_music_speech": {"": _each("music speech", "music_speech/{kind}_wav/{kind}{i}.wav", wav(700, 22050))},
    "spoken_digit": {"": _each("0 9", "free-spoken-digit-dataset-1.0.9/recordings/{kind}_me_{i}.wav", wav(300, 8000))},
    "ljspeech": {
        "": {
            "LJSpeech-1.1": {"metadata.csv": lines("LJ-{i}|Dr. é|Doctor é")}
            | _each("LJ", "wavs/{kind}-{i}.wav", wav(900, 22050), ROWS)
        }
    },
    "savee": {"manual/AudioData.zip": _each("DC JE JK KL", "AudioData/{kind}/sa0{i}.wav", wav(800, 44100))},
    "speech_commands": {
        "speech_commands_v": {f"{word}/{i}.wav": wav(16000 + i) for word in ("down", "cat", "up") for i in range(3)}
        | {
            "_background_noise_/n.wav": wav(32000),
            "testing_list.txt": b"down/0.wav\n",
            "validation_list.txt": b"up/1.wav\n",
        },
        "speech_commands_test": {f"{word}/{i}.wav": wav(16000 + i) for word in ("_silence_", "no") for i in range(2)},
    },
}
_BEAM: dict[str, Source] = {
    "dolma": {
        "v1_7.txt": lines("https://there/{i}.json.gz"),
        "there": jsonl({"id": "{i}", "text": "t", "source": "s"}),
    },
    "media_sum": {
        "manual/news_dialogue.json": json_of(
            rows(
                {
                    "id": "N-{i}",
                    "program": "p",
                    "date": "d",
                    "url": "u",
                    "summary": "s",
                    "utt": ["a", "b"],
                    "speaker": ["A", "é"],
                }
            )
        ),
        "manual/train_val_test_split.json": json_of({"train": ["N-0", "N-1"], "val": ["N-2"], "test": ["N-3", "N-4"]}),
    },
    "wiki_dialog": {
        "jsonl-000[1-9]|jsonl-0000[1-9]": b"",
        "": jsonl(
            {
                "title": "t{i}",
                "pid": "p",
                "passage": "x",
                "sentences": ["s"],
                "utterances": ["u", "v"],
                "author_num": [0, I],
            }
        ),
    },
    "libritts": {
        "": {
            "LibriTTS": {
                "speakers.tsv": b"READER\tGENDER\tSUBSET\tNAME\n14\tF\ttrain\tK\n15\tM\ttest\n",
                "d/14/208/14_208.trans.tsv": lines("14_208_{i}\tText &\ttext and", n=3),
            }
            | _each("14_208", "d/14/208/{kind}_{i}.wav", wav(500, 24000), 3)
        }
    },
    "beir/scifact": {
        "": {
            "scifact": {
                "queries.jsonl": jsonl({"_id": "{i}", "text": "q", "metadata": {"k": I}}),
                "corpus.jsonl": jsonl({"_id": "p{i}", "title": "T", "text": "x", "metadata": {}}),
                "qrels/train.tsv|qrels/test.tsv": lines("{i}\tp{i}\t1", "query-id\tcorpus-id\tscore", 3),
            }
        }
    },
}
_MANUAL: dict[str, Source] = {
    "story_cloze/2016": {
        "manual/cloze_test_val__spring2016.csv|cloze_test_test__spring2016.csv": lines(
            "{i},a,b,c,d,e,f,2",
            "InputStoryid,InputSentence1,InputSentence2,InputSentence3,InputSentence4,RandomFifthSentenceQuiz1,"
            "RandomFifthSentenceQuiz2,AnswerRightEnding",
        )
    },
    "simpte": {
        "manual/sim_pte_train.csv|sim_pte_test.csv": lines(
            ",".join(["{i}", "1", "2", *["-0.{i}7"] * 20]),
            ",".join(["", "y", "treat", *(f"X{i}" for i in range(1, 21))]),
        )
    },
    "user_libri_text": {
        "manual/google_userlibri": {
            "UserLibri/lm_data": {
                "metadata.tsv": lines("{i}\t5\t2.5", "Book ID\tNum Text Examples\tAverage Words Per Example", 2),
                "0_lm_train.txt|1_lm_train.txt": lines("line {i}\n"),
            }
        }
    },
    "wikihow/all": {
        "": lines("Title{i}"),
        "manual/wikihowAll.csv": lines('"short","Title {i}","a long text, of some sentences"', "headline,title,text"),
    },
}
_CONFIGS: dict[str, Source] = {
    "paws_wiki/labeled_final_tokenized": {
        "": {"final/train.tsv|final/dev.tsv|final/test.tsv": lines("{i}\ta\tb\t{b}", "id\tsentence1\tsentence2\tlabel")}
    },
    "ted_hrlr_translate/az_to_en": {
        "": {
            "datasets/az_to_en": {
                f"{language}.{split}": lines(language + " {i}")
                for language in ("az", "en")
                for split in ("train", "dev", "test")
            }
        }
    },
    "e2e_cleaned": {"": lines('"name[A {i}], food[é]",Text {i}', "mr,ref")},
    "movie_rationales": {
        "": {
            "movies": {
                "train.jsonl|val.jsonl|test.jsonl": jsonl(
                    {
                        "annotation_id": "r{i}.txt",
                        "classification": "POS",
                        "evidences": [[{"text": "a"}, {"text": "b"}], [{"text": "c{i}"}]],
                    }
                ),
                "|".join(f"docs/r{i}.txt" for i in range(ROWS)): b"good",
            }
        }
    },
    "hellaswag": {
        "": b"".join(
            jsonl(
                {
                    "ctx": f"c{{i}} {split_type}",
                    "endings": ["a", "b"],
                    "activity_label": "l",
                    "label": I,
                    "split_type": split_type,
                    "source_id": f"{source}~{{i}}",
                },
                2,
            )
            for split_type in ("indomain", "zeroshot")
            for source in ("activitynet", "wikihow")
        )
    },
    "cos_e": {
        "/v1.11/": jsonl({"id": "{i}", "explanation": {"open-ended": "o", "selected": "s"}}),
        "commensenseqa": jsonl(
            {
                "id": "{i}",
                "answerKey": "B",
                "question": {"stem": "?", "choices": [{"label": "A", "text": "a"}, {"label": "B", "text": "b{i}"}]},
            }
        ),
    },
}
BUILDERS: dict[str, Source] = {
    **_TABLES,
    **_LINES,
    **_JSON,
    **_XML,
    **_IMAGES,
    **_AUDIO,
    **_BEAM,
    **_MANUAL,
    **_CONFIGS,
}
