"""DECISION, CAiDA, DATE and SHOT on feature banks; each takes its source weights from `weights`."""

from torch_ref.methods.caida import Caida
from torch_ref.methods.date import Date
from torch_ref.methods.decision import Decision
from torch_ref.methods.shot import Shot

METHODS = {"shot": Shot, "decision": Decision, "caida": Caida, "date": Date}
