"""A small run that is watched, and stopped at an iteration."""

from constrained_dnc.training.loggers import Observer
from tiny_runs import tiny_config

CONFIG = tiny_config()


class Watcher(Observer):
    """Records every call and acts at an iteration."""

    def __init__(self, at=None, act=None):
        self.at, self.act = at, act
        self.sentences, self.warnings, self.snapshots, self.lines = [], [], [], []

    def say(self, sentence):
        self.sentences.append(sentence)

    def warn(self, sentence):
        self.warnings.append(sentence)

    def log(self, iteration, values):
        self.lines.append({"iteration": iteration, **values})

    def progress(self, snapshot):
        self.snapshots.append(snapshot)
        if snapshot.iteration == self.at:
            self.act()


class PowerCut(BaseException):
    """Ends a training at once."""


def cut_power():
    raise PowerCut
