"""The results that are kept for the tests are those that Beam computes."""

import pytest

from tests.kept_by_beam import keeping_options, keeping_signatures

pytest.importorskip("apache_beam")

import apache_beam as beam
from apache_beam.options.pipeline_options import PipelineOptions
from apache_beam.typehints.decorators import get_signature


class Stage(beam.DoFn):
    def process(self, element, *rest, stamp=beam.DoFn.TimestampParam, window=beam.DoFn.WindowParam):
        yield element, rest, stamp, window

    def finish_bundle(self, value=3):
        return value


def arguments_by_beam(method):
    """Returns what Beam's function does, without what a run of tests keeps."""
    parameters = [each for each in get_signature(method).parameters.values() if each.kind in (0, 1)]
    return [each.name for each in parameters], [each.default for each in parameters if each.default is not each.empty]


def test_arguments_of_methods_are_kept_apart():
    keeping = keeping_signatures(arguments_by_beam)
    stages = [Stage(), beam.DoFn(), Stage()]
    for _ in range(3):
        for name in ("process", "finish_bundle", "setup"):
            for method in (getattr(stage, name) for stage in stages):
                names, defaults = keeping(method)
                assert (names, defaults) == arguments_by_beam(method)
                names.clear()  # a caller's list
                defaults.append(0)
    assert keeping(len) == arguments_by_beam(len)


def all_classes(kind):
    return [kind, *(each for child in kind.__subclasses__() for each in all_classes(child))]


FLAGS = (
    [],
    ["--runner=FlinkRunner", "--parallelism=3", "--experiments=a", "--experiments=b"],
    ["--runner=FlinkRunner", "--parallelism=4", "--experiments=b", "--unknown", "x"],
)


def test_options_are_kept_apart(monkeypatch):
    by_beam = {}
    classes = [kind for kind in all_classes(PipelineOptions) if kind.__module__ == PipelineOptions.__module__]
    original = PipelineOptions.__init__
    while hasattr(original, "by_beam"):
        original = original.by_beam
    for flags in FLAGS:
        monkeypatch.setattr(PipelineOptions, "__init__", original)
        by_beam[str(flags)] = [vars(kind(flags)) for kind in classes]
        given = vars(PipelineOptions(flags, experiments=["c"]).view_as(classes[-1]))
        monkeypatch.setattr(PipelineOptions, "__init__", keeping_options(original))
        for _ in range(2):
            options = [kind(list(flags)) for kind in classes]
            assert [vars(each) for each in options] == by_beam[str(flags)]
            assert vars(PipelineOptions(flags, experiments=["c"]).view_as(classes[-1])) == given
            views = [options[0].view_as(kind) for kind in classes]
            assert all(view._all_options is options[0]._all_options for view in views)
            for view in views:
                if getattr(view._visible_options, "experiments", None):
                    view._visible_options.experiments.append("of another pipeline")
    monkeypatch.setattr(PipelineOptions, "__init__", keeping_options(original))
    with pytest.raises(SystemExit):
        PipelineOptions(["--parallelism=many"]).view_as(
            next(kind for kind in classes if kind.__name__ == "FlinkRunnerOptions")
        )
    with pytest.raises(ValueError, match="single string"):
        PipelineOptions("--runner=x")
