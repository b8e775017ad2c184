"""Texts in: tokens, corpora, sampling, perplexity against sums by hand, and what is refused."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from sna_rl.errors import SnaError, UsageError
from sna_rl.language.config import LMConfig
from sna_rl.language.corpus import Corpus, read_text
from sna_rl.language.model import SeparableLM
from sna_rl.language.sampling import Sampling, generate
from sna_rl.language.scoring import perplexity
from sna_rl.language.tokens import BPETokens, ByteTokens, load_tokens

TEXT = "if x > 3 then y = 5 else y = 2.\nnaïve café — ünï\n" * 40


@given(text=st.text())
def test_bytes_round_trip(text: str) -> None:
    text = text.encode(errors="ignore").decode()
    assert ByteTokens().decode(ByteTokens().encode(text).tolist()) == text


@pytest.fixture(scope="module")
def bpe() -> BPETokens:
    return BPETokens.train(TEXT, 280)


@given(text=st.text(max_size=30))
def test_pairs_round_trip_any_text_and_know_their_bytes(bpe: BPETokens, text: str) -> None:
    text = text.encode(errors="ignore").decode()
    tokens = bpe.encode(text)
    assert bpe.decode(tokens.tolist()) == text
    assert bpe.n_bytes[tokens].sum() == len(text.encode())


def test_pairs_are_fewer_than_bytes_and_survive_their_file(bpe: BPETokens, tmp_path: Path) -> None:
    bpe.save(tmp_path / "tokenizer.json")
    again = load_tokens(tmp_path)
    assert again.vocab_size == 280
    np.testing.assert_array_equal(again.encode(TEXT), bpe.encode(TEXT))
    assert len(bpe.encode(TEXT)) < len(ByteTokens().encode(TEXT)) / 1.5
    assert isinstance(load_tokens(tmp_path.parent), ByteTokens)


def test_vocabularies_that_cannot_be(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="more than the 256 bytes"):
        BPETokens.train(TEXT, 256)
    with pytest.raises(UsageError, match=r"pairs for .* not 9,999"):
        BPETokens.train(TEXT, 9999)
    for content, said in (("no json", "can't be read as JSON"), ("{}", "is no tokenizer")):
        (tmp_path / "tokenizer.json").write_text(content)
        with pytest.raises(SnaError, match=said):
            load_tokens(tmp_path)


def test_a_folder_is_read_in_the_order_of_its_names(tmp_path: Path) -> None:
    (tmp_path / "inner").mkdir()
    for name, text in (("b.txt", "two"), ("a.txt", "one"), (".hidden", "no"), ("inner/c.md", "three")):
        (tmp_path / name).write_text(text)
    assert read_text(tmp_path) == "one\ntwo\nthree"


def test_the_default_corpus_is_pythons_own_source() -> None:
    text = read_text(None)
    assert len(text) > 5_000_000
    assert "class JSONDecoder" in text


@pytest.mark.parametrize(
    ("content", "said"), [(b"caf\xe9", r"is not UTF-8 \(byte 3\)"), (b"", "is empty"), (b" \n", "is empty")]
)
def test_texts_that_are_none(tmp_path: Path, content: bytes, said: str) -> None:
    file = tmp_path / "text"
    file.write_bytes(content)
    for path in (file, tmp_path):
        with pytest.raises(UsageError, match=said):
            read_text(path)
    with pytest.raises(UsageError, match="does not exist"):
        read_text(tmp_path / "nothing")


def test_a_text_shorter_than_a_block_is_refused() -> None:
    with pytest.raises(UsageError, match="held-out part of the text has 10 tokens, and one block needs 11"):
        Corpus.of("x" * 100, ByteTokens(), 10)
    assert len(Corpus.of("x" * 110, ByteTokens(), 10).held_out) == 11


MODEL = SeparableLM(LMConfig(vocab_size=256, n_positions=40, width=8, n_layers=1, n_heads=2, rank=3)).eval()


def test_perplexity_and_bits_equal_the_sums_by_hand() -> None:
    tokens = torch.from_numpy(ByteTokens().encode(TEXT))[:95]
    n_bytes = torch.arange(256) % 3 + 1
    rare = torch.arange(256) == ord("x")
    scores = perplexity(MODEL, tokens, n_bytes, 40, rare)
    nats, size, told_apart = 0.0, 0, []
    with torch.no_grad():
        for start in (0, 40):
            block = tokens[start : start + 41]
            logs = MODEL(block[None, :-1])[0].log_softmax(-1)
            for position, token in enumerate(block[1:].tolist()):
                nats -= logs[position, token].item()
                size += token % 3 + 1
                if token == ord("x"):
                    told_apart.append(-logs[position, token].item())
    assert scores["n_tokens"] == 80
    assert scores["perplexity"] == pytest.approx(math.exp(nats / 80), rel=1e-5)
    assert scores["bits_per_byte"] == pytest.approx(nats / math.log(2) / size, rel=1e-5)
    assert scores["rare_perplexity"] == pytest.approx(math.exp(np.mean(told_apart)), rel=1e-5)


def test_an_untrained_model_of_equal_logits_has_the_vocabulary_as_perplexity() -> None:
    model = SeparableLM(MODEL.config)
    assert model.head is not None
    torch.nn.init.zeros_(model.head.weight)
    scores = perplexity(model, torch.randint(0, 256, (200,)), torch.ones(256, dtype=torch.long), 40)
    assert scores["perplexity"] == pytest.approx(256, rel=1e-5)
    assert scores["bits_per_byte"] == pytest.approx(8, rel=1e-5)


LOGITS = torch.tensor([[0.5, 0.05, 0.3, 0.15]], dtype=torch.float64).log()


@pytest.mark.parametrize(
    ("sampling", "expected"),
    [
        (Sampling(), [0.5, 0.05, 0.3, 0.15]),
        (Sampling(top_k=2), [0.625, 0.0, 0.375, 0.0]),
        (Sampling(top_p=0.7), [0.625, 0.0, 0.375, 0.0]),
        (Sampling(top_p=0.81), [10 / 19, 0.0, 6 / 19, 3 / 19]),
        (Sampling(top_p=0.01), [1.0, 0.0, 0.0, 0.0]),
        (Sampling(top_k=3, top_p=0.6), [0.625, 0.0, 0.375, 0.0]),
        (Sampling(temperature=0.5), [0.25 / 0.365, 0.0025 / 0.365, 0.09 / 0.365, 0.0225 / 0.365]),
        (Sampling(temperature=0.0), [1.0, 0.0, 0.0, 0.0]),
    ],
)
def test_what_is_drawn_from_by_hand(sampling: Sampling, expected: list[float]) -> None:
    torch.testing.assert_close(sampling.probabilities(LOGITS)[0], torch.tensor(expected, dtype=torch.float64))


def test_draws_have_those_frequencies() -> None:
    drawn = Sampling(top_k=2).choose(LOGITS.expand(20_000, -1), torch.Generator().manual_seed(0))
    assert (drawn == 0).double().mean().item() == pytest.approx(0.625, abs=0.02)


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"temperature": -1.0}, "temperature"),
        ({"top_k": 0}, "top_k"),
        ({"top_p": 0.0}, "top_p"),
        ({"top_p": 1.1}, "top_p"),
    ],
)
def test_sampling_out_of_range(wrong: dict[str, float], said: str) -> None:
    with pytest.raises(UsageError, match=said):
        Sampling(**wrong)  # type: ignore[arg-type]


def test_a_seed_decides_what_is_generated() -> None:
    prompt = torch.tensor([[72, 105]])
    runs = [
        [int(token) for token in generate(MODEL, prompt, 20, Sampling(), seed=seed)] for seed in (1, 1, 2)
    ]
    assert runs[0] == runs[1] != runs[2]


@torch.no_grad()
def test_greedy_generation_equals_the_argmax_of_parallel_passes() -> None:
    prompt = torch.tensor([[72, 105, 3]])
    expected = prompt
    for _ in range(15):
        expected = torch.cat([expected, MODEL(expected)[:, -1].argmax(-1, keepdim=True)], 1)
    tokens = torch.stack(list(generate(MODEL, prompt, 15, Sampling(temperature=0.0))), 1)
    assert torch.equal(tokens, expected[:, 3:])


def test_prompts_that_do_not_fit() -> None:
    with pytest.raises(UsageError, match="prompt is empty"):
        list(generate(MODEL, torch.zeros(1, 0, dtype=torch.long), 3, Sampling()))
    with pytest.raises(UsageError, match="30 tokens and 12 new ones are more than the 40 positions"):
        list(generate(MODEL, torch.zeros(1, 30, dtype=torch.long), 12, Sampling()))
    assert len(list(generate(MODEL, torch.zeros(1, 30, dtype=torch.long), 11, Sampling()))) == 11
