"""Configurations: the template is valid, overrides work, mistakes get one sentence with the nearest key."""

from __future__ import annotations

from pathlib import Path

import pytest

from neuralcpm_bridge.errors import UserError
from training.config import EXAMPLE, load_config, make_config


def write(folder: Path, text: str) -> Path:
    path = folder / "run.toml"
    path.write_text(text, encoding="utf-8")
    return path


def test_the_template_is_valid_and_its_data_path_is_relative_to_it(tmp_path: Path) -> None:
    config = load_config(write(tmp_path, EXAMPLE))
    assert config.data.path == tmp_path / "data.npz"
    assert config.objective.kind == "conditional"
    assert [group.start for group in config.chains] == ["data", "mixed"]


def test_overrides_change_values_also_inside_lists(tmp_path: Path) -> None:
    changes = ["optimizer.lr=0.5", "chains.1.start=permuted", "chains.0.sweeps=[3]", "run.seed=4"]
    config = load_config(write(tmp_path, EXAMPLE), changes)
    assert config.optimizer.lr == 0.5
    assert config.chains[1].start == "permuted"
    assert config.chains[0].sweeps == (3.0,)
    assert config.run.seed == 4


@pytest.mark.parametrize(
    ("override", "sentence"),
    [
        ("optimizer.learning_rat=1", "did you mean"),
        ("optimzer.lr=1", "did you mean 'optimizer'"),
        ("chains.0.sweep=[1]", "did you mean 'sweeps'"),
        ("optimizer.lr=-1", "optimizer.lr"),
        ("optimizer.batch=1000", "sampler.pool"),
        ("chains.0.sweeps=[0.5]", "whole Monte Carlo steps"),
        ("objective.kind=cd", "objective.kind"),
        ('model.terms=["wetness"]', "volume_function, surface, length, external"),
        ("model.order=0", "model.order"),
        ("nonsense", "section.key=value"),
        ("optimizer.lr.x=1", "optimizer"),
        ("sampler.temperature=inf", "finite"),
        ("sampler.threads=100000", "1024"),
    ],
)
def test_mistakes_are_one_sentence(tmp_path: Path, override: str, sentence: str) -> None:
    with pytest.raises(UserError) as caught:
        load_config(write(tmp_path, EXAMPLE), [override])
    assert sentence in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("option", ["balanced=true", "staged=true", "trades=2"])
def test_the_parallel_sampler_refuses_what_only_exact_chains_do(tmp_path: Path, option: str) -> None:
    with pytest.raises(UserError, match=f"sampler.{option.partition('=')[0]} belongs to exact chains") as caught:
        load_config(write(tmp_path, EXAMPLE), ["sampler.kind=parallel", f"sampler.{option}"])
    assert "\n" not in str(caught.value)


def test_missing_and_broken_files_are_refused(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="no configuration"):
        load_config(tmp_path / "absent.toml")
    with pytest.raises(UserError, match="not a readable TOML"):
        load_config(write(tmp_path, "[data"))
    with pytest.raises(UserError, match="empty"):
        make_config({"chains": []})
