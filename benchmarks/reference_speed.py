"""Flips per second of the paper authors' code, run inside *their* environment (JAX): sampling and gradient, or chains.

    python reference_speed.py CODE STATES.npz MODEL FLIPS [chains]    →  one JSON line

CODE is a checkout of their repository; nothing of it is part of this project. MODEL is a key of their experiment 1:
cellsort_baseline, nh or nch. One chain, batches of 50 flips as in the paper. `chains`: their sampler alone.
"""

import json
import os
import sys
import tempfile
import time
import types

code, states, name, flips = sys.argv[1], sys.argv[2], sys.argv[3], int(sys.argv[4])
chains_only = sys.argv[5:] == ["chains"]
sys.path.insert(0, code)
os.chdir(tempfile.mkdtemp())  # their configuration makes folders where it is run
for absent in ("matplotlib", "matplotlib.pyplot", "matplotlib.colors"):  # imported there for plots only
    try:
        __import__(absent)
    except ImportError:
        module = types.ModuleType(absent)
        sys.modules[absent] = module
        parent, _, child = absent.rpartition(".")
        if parent:
            setattr(sys.modules[parent], child, module)
sys.stdout = sys.stderr  # they print while compiling; the result goes to the real output

import equinox as eqx  # noqa: E402
import jax  # noqa: E402
import numpy as np  # noqa: E402
import optax  # noqa: E402
import utils  # noqa: E402
from configs.config_commons import common_exp1  # noqa: E402
from configs.experiment_1 import model_and_model_config_exp1  # noqa: E402
from sampling.samplers import parallelized_cellular_potts_sampler  # noqa: E402

PARALLEL = 50

config = common_exp1("speed")
config.model, config.model_config = model_and_model_config_exp1(name)
model = utils.initialize_model(config, key=jax.random.key(0), **config.model_config)
with np.load(states) as archive:
    ids, kinds = archive["ids"][0], archive["types"][0]
state = np.stack([ids, kinds[ids]]).astype(int)
sampler = parallelized_cellular_potts_sampler(state.shape, max(1, flips // PARALLEL), PARALLEL)
optimizer = optax.adam(1e-3)
moments = optimizer.init(eqx.filter(model, eqx.is_array))


def loss(model, real, generated):
    return jax.vmap(model)(real)[0].mean() - jax.vmap(model)(generated)[0].mean()


@eqx.filter_jit
def sample(key, model, state):
    return sampler.sample(key, model, sampler.init(key, x=state))[0][0]


@eqx.filter_jit
def descend(model, moments, real, generated):
    gradient = eqx.filter_grad(loss)(model, real, generated)
    updates, moments = optimizer.update(gradient, moments, eqx.filter(model, eqx.is_array))
    return eqx.apply_updates(model, updates), moments


def step(key):
    generated = sample(key, model, state)
    if chains_only:
        return generated
    return eqx.filter(descend(model, moments, state[None], generated[None])[0], eqx.is_array)


jax.block_until_ready(step(jax.random.key(1)))  # compiles
began, worked = time.perf_counter(), time.process_time()
jax.block_until_ready(step(jax.random.key(2)))
seconds, processor = time.perf_counter() - began, time.process_time() - worked
done = max(1, flips // PARALLEL) * PARALLEL
found = {"flips": done, "seconds": seconds, "flips_per_s": done / seconds, "flips_per_processor_s": done / processor}
print(json.dumps(found), file=sys.__stdout__)
