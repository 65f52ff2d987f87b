"""The builders of TFDS that are compared, each with its fake sources."""

from __future__ import annotations

from tests.interop.fake_sources import F, I, Source, json_of, jsonl, lines, rows

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
BUILDERS: dict[str, Source] = {**_TABLES, **_LINES, **_JSON}
