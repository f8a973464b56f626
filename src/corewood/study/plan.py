"""What a study stands for: its jobs, checked before anything runs."""

from __future__ import annotations

from pathlib import Path

from corewood.spec import StudySpec
from corewood.spec_lottery import LotterySpec
from corewood.study.base import Plan
from corewood.study.plan_core import make_core_plan
from corewood.study.plan_lottery import make_lottery_plan


def make_plan(spec: StudySpec | LotterySpec, base: Path) -> Plan:
    """Everything a study will do. Paths in the study are relative to `base`."""
    return make_lottery_plan(spec, base) if isinstance(spec, LotterySpec) else make_core_plan(spec, base)
