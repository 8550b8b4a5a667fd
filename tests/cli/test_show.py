"""The command show: lists, samples, and answers of pretrained models."""

from constrained_dnc.cli import main
from constrained_dnc.parts import APPROACHES
from constrained_dnc.tasks.registry import task_names


def test_tasks_and_approaches_have_one_line_each(capsys):
    assert main(["show"]) == 0
    names = [line.split()[0] for line in capsys.readouterr().out.splitlines() if line]
    assert [name for name in names if name in {*task_names(), *APPROACHES}] == [
        *task_names(),
        *APPROACHES,
    ]


def test_a_sample_step_by_step(capsys):
    assert main(["show", "sort", "312"]) == 0
    table = capsys.readouterr().out.splitlines()[5:14]
    assert table == [
        "step   numeral  control  |    result  signal",
        "   1   3 (0.5)           |         ·       ·",
        "   2  1 (-0.5)           |         ·       ·",
        "   3     2 (0)           |         ·       ·",
        "   4                  1  |         ·       ·",
        "   5                     |  1 (-0.5)",
        "   6                     |     2 (0)",
        "   7                     |   3 (0.5)",
        "   8                     |                 1",
    ]


def test_numbers_of_a_task_without_labels(tmp_path, capsys):
    (tmp_path / "plain.py").write_text(
        "from constrained_dnc.tasks.numeral import Copy\n\n\nclass Plain(Copy):\n"
        '    name = "plain"\n\n    def cell_labels(self, problem):\n        return None\n'
    )
    assert main(["show", f"{tmp_path / 'plain.py'}:Plain", "3 2"]) == 0
    rows = [line.split() for line in capsys.readouterr().out.splitlines()[6:12]]
    assert rows[:2] == [["1", "0.5", "0", "|", "·", "·"], ["2", "0", "0", "|", "·", "·"]]
    assert rows[3:5] == [["4", "0", "0", "|", "0.5", "0"], ["5", "0", "0", "|", "0", "0"]]


def test_any_length(capsys):
    assert main(["show", "logic", "--length", "11", "--seed", "3"]) == 0
    assert len(capsys.readouterr().out.splitlines()) == 5 + 1 + 13 + 3
