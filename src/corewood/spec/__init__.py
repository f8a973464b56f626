"""The study file: what may stand in it, and what it means.

A study names models, ways of looking for subnetworks in them, and questions to ask of these. Every class is frozen and forbids
unknown keys; `read_study` turns every mistake in a file into one message that names the key.
"""

from corewood.spec.base import Ablation as Ablation
from corewood.spec.base import kept_units as kept_units
from corewood.spec.questions import Ablations as Ablations
from corewood.spec.questions import Attention as Attention
from corewood.spec.questions import EffectiveSize as EffectiveSize
from corewood.spec.questions import Patterns as Patterns
from corewood.spec.questions import Steps as Steps
from corewood.spec.questions import Tickets as Tickets
from corewood.spec.read import parse_study as parse_study
from corewood.spec.read import read_study as read_study
from corewood.spec.study import StudySpec as StudySpec
from corewood.spec.tasks import FilesTask as FilesTask
from corewood.spec.tasks import GlueTask as GlueTask
from corewood.spec.tasks import SourceSpec as SourceSpec
from corewood.spec.tuning import FineTune as FineTune
from corewood.spec.tuning import ModelSpec as ModelSpec
from corewood.spec.ways import CORE as CORE
from corewood.spec.ways import L0 as L0
from corewood.spec.ways import Competing as Competing
from corewood.spec.ways import Importance as Importance
from corewood.spec.ways import Magnitude as Magnitude
from corewood.spec.ways import Searches as Searches
