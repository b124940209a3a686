"""make_hf_folder.py FOLDER: a Llama of random weights as a Hugging Face folder: config, safetensors, sentencepiece model."""
import io
import json
import pathlib
import random
import struct
import sys

import sentencepiece

from support import text

WIDTH, FFN, LAYERS, HEADS, KV_HEADS, WORDS = 256, 512, 2, 4, 2, 360


def vocabulary(folder):
    model = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(sentence_iterator=iter(text(20000).splitlines()), model_writer=model,
                                             vocab_size=WORDS, model_type="bpe", byte_fallback=True,
                                             hard_vocab_limit=False, minloglevel=2)
    (folder / "tokenizer.model").write_bytes(model.getvalue())
    return sentencepiece.SentencePieceProcessor(model_proto=model.getvalue()).vocab_size()


def shapes(words):
    yield "model.embed_tokens.weight", (words, WIDTH)
    for layer in range(LAYERS):
        inside = f"model.layers.{layer}."
        kv = WIDTH // HEADS * KV_HEADS
        for name, shape in (("self_attn.q_proj", (WIDTH, WIDTH)), ("self_attn.k_proj", (kv, WIDTH)),
                            ("self_attn.v_proj", (kv, WIDTH)), ("self_attn.o_proj", (WIDTH, WIDTH)),
                            ("mlp.gate_proj", (FFN, WIDTH)), ("mlp.up_proj", (FFN, WIDTH)), ("mlp.down_proj", (WIDTH, FFN)),
                            ("input_layernorm", (WIDTH,)), ("post_attention_layernorm", (WIDTH,))):
            yield f"{inside}{name}.weight", shape
    yield "model.norm.weight", (WIDTH,)
    yield "lm_head.weight", (words, WIDTH)


def safetensors(path, words):
    chance, header, payload = random.Random(1), {"__metadata__": {"format": "pt"}}, bytearray()
    for name, shape in shapes(words):
        count = shape[0] * (shape[1] if len(shape) > 1 else 1)
        spread = 1.0 if "embed" in name else shape[-1] ** -0.5 * (4 if name == "lm_head.weight" else 1)
        values = [1.0] * count if len(shape) == 1 else [chance.gauss(0, spread) for _ in range(count)]
        data = struct.pack(f"<{count}e", *values)
        header[name] = {"dtype": "F16", "shape": list(shape), "data_offsets": [len(payload), len(payload) + len(data)]}
        payload += data
    head = json.dumps(header).encode()
    path.write_bytes(struct.pack("<Q", len(head)) + head + payload)


def main(folder):
    folder.mkdir(parents=True)
    words = vocabulary(folder)
    (folder / "config.json").write_text(json.dumps({
        "architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_size": WIDTH, "intermediate_size": FFN,
        "num_hidden_layers": LAYERS, "num_attention_heads": HEADS, "num_key_value_heads": KV_HEADS, "vocab_size": words,
        "max_position_embeddings": 512, "rms_norm_eps": 1e-5, "rope_theta": 10000.0, "hidden_act": "silu",
        "tie_word_embeddings": False, "torch_dtype": "float16", "bos_token_id": 1, "eos_token_id": 2}))
    (folder / "tokenizer_config.json").write_text(json.dumps({"tokenizer_class": "LlamaTokenizer", "add_bos_token": True,
                                                              "add_eos_token": False}))
    safetensors(folder / "model.safetensors", words)


main(pathlib.Path(sys.argv[1]))
