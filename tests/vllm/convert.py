"""The default model for vLLM: GGUF in, a folder with bfloat16 safetensors and the tokenizer out. Usage: convert.py FILE.gguf FOLDER"""
import os
import sys

import torch
from transformers import AutoModelForCausalLM, AutoTokenizer


def main():
    folder, name = os.path.split(sys.argv[1])
    tokenizer = AutoTokenizer.from_pretrained(folder, gguf_file=name)
    model = AutoModelForCausalLM.from_pretrained(folder, gguf_file=name, dtype=torch.bfloat16)
    if hasattr(model.config, "quantization_config"):  # the weights are plain now, whatever the file was
        del model.config.quantization_config
    model.hf_quantizer, model.is_quantized = None, False
    model.save_pretrained(sys.argv[2])
    tokenizer.save_pretrained(sys.argv[2])


if __name__ == "__main__":
    main()
