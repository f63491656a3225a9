"""Each packer gets the whole histogram and three sequences a row."""

import pytest
import study_packers as study
from press.study import hold


def test_packers_get_the_same_histogram():
    seen = hold(study.STUDY)
    assert {name for name, _ in seen} == {"spfhp", "lpfhp", "nnlshp"}
    for (name, seed), one in seen.items():
        assert seed == 0 and one.job.arm.setting == {"packer": name, "most": 3}
        assert (
            one.tests["test"].tolist() == study.parts(0, {"lengths": 64})["test"].data.tolist()
        )
    assert study.STUDY.sizes == {"lengths": 512}


def test_the_parts_hold_every_sequence_of_the_paper():
    whole = study.parts(0, {"lengths": 512})["test"].data
    assert len(whole) == 512 and whole.sum() == 16_279_552


def test_efficiencies_are_of_the_arm_s_packer():
    from helpers.study import Job

    histogram = study.parts(0, {"lengths": 64})["test"].data
    found = {
        name: study.judge("new", histogram, Job(name, arm, 0, {"lengths": 64}))
        for name, arm in study.STUDY.arms.items()
    }
    assert found["spfhp"]["efficiency"] < found["nnlshp"]["efficiency"]
    assert found["spfhp"]["efficiency"] != pytest.approx(found["lpfhp"]["efficiency"], abs=1e-6)


def test_an_efficiency_is_recorded_as_exact():
    class Receipt:
        def record(self, name, value, unit, interval):
            self.told = (name, value, unit, interval)

    receipt = Receipt()
    study.STUDY.extra(receipt, {"nnlshp": {0: {"test": {"efficiency": 0.9975}}}})
    assert receipt.told == ("study_nnlshp_efficiency", pytest.approx(99.75), "%", "exact")
