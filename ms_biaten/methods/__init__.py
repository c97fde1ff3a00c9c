"""DECISION, CAiDA, DATE and SHOT on feature banks; each takes its source weights from `weights`."""

from ms_biaten.methods.caida import Caida
from ms_biaten.methods.date import Date
from ms_biaten.methods.decision import Decision
from ms_biaten.methods.shot import Shot

METHODS = {"shot": Shot, "decision": Decision, "caida": Caida, "date": Date}
