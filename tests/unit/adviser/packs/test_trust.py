"""The trust policy: its file is read strictly, and says why a pack never decides."""

from __future__ import annotations

from dataclasses import replace
from datetime import date, timedelta
from pathlib import Path

import pytest

from adviser.packs.pack_files import opened
from adviser.packs.trust import evidence_pack, parse_policy, read_policy, trust_of
from common.settings import Settings
from model.errors import InvalidFile, InvalidSettings
from tests.factories.evidence import ELSEWHERE, measured
from tests.factories.packs import MEASURED_AT, pack_of

KEY = "sha256:" + "5" * 64
TODAY = MEASURED_AT.date()
POLICY = f'[[rules]]\nkey = "{KEY}"\n'


@pytest.fixture(scope="module")
def manifest(tmp_path_factory: pytest.TempPathFactory):
    return opened(pack_of(measured().evidence(), tmp_path_factory.mktemp("pack"))).manifest


@pytest.mark.parametrize(
    ("rule", "key", "today", "reason"),
    [
        ("", KEY, TODAY, None),
        ("", None, TODAY, "nobody signed it"),
        ("", "sha256:" + "6" * 64, TODAY, "does not trust its key"),
        ("max_age_days = 30", KEY, TODAY + timedelta(days=31), "31 days ago"),
        ("", KEY, TODAY - timedelta(days=2), "in the future"),
        ("min_sessions = 3", KEY, TODAY, "2 sessions"),
        ('indicators = ["PiConv*"]', KEY, TODAY, "other indicators"),
        ('classes = ["sha256:cccccccc"]', KEY, TODAY, "other hardware classes"),
    ],
)
def test_a_pack_decides_what_the_rule_of_its_key_allows(
    manifest, rule: str, key: str | None, today: date, reason: str | None
) -> None:
    policy = parse_policy((POLICY + rule).encode(), "packs.toml")
    pack = evidence_pack(manifest, key, policy, today)
    trust = trust_of(pack, policy)
    assert trust.decides == (pack.problem is None) == (reason is None)
    assert (reason or "trusts its key") in trust.reason


def test_a_pack_decides_only_on_the_classes_of_the_rule(manifest) -> None:
    policy = f'{POLICY}classes = ["{ELSEWHERE[:20]}"]'.encode()
    pack = evidence_pack(manifest, KEY, parse_policy(policy, "packs.toml"), TODAY)
    assert (pack.problem, pack.hardware) == (None, (ELSEWHERE,))


@pytest.mark.parametrize(
    ("text", "field"),
    [
        ("rule = 1", "rule"),
        ('[[rules]]\nkey = "x"', "rules[0].key"),
        ("[[rules]]\nmin_jobs = 9", "rules[0].key"),
        (f"{POLICY}min_job = 9", "rules[0].min_job"),
        (f"{POLICY}min_jobs = 1", "rules[0].min_jobs"),
        (f"{POLICY}indicators = []", "rules[0].indicators"),
        (f'{POLICY}classes = ["{KEY[:12]}"]', "rules[0].classes[0]"),
        (POLICY + POLICY, "rules[1].key"),
    ],
)
def test_errors_of_a_policy_name_the_field(text: str, field: str) -> None:
    with pytest.raises(InvalidFile) as refused:
        parse_policy(text.encode(), "packs.toml")
    assert (refused.value.place, refused.value.field) == ("packs.toml", field)


def test_the_bundled_policy_can_be_read_and_a_missing_one_is_an_error(tmp_path: Path) -> None:
    settings = Settings.from_env({})
    assert read_policy(settings).source == "the bundled packs.toml"
    with pytest.raises(InvalidSettings):
        read_policy(replace(settings, packs_policy=tmp_path / "packs.toml"))
