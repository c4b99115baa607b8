"""A second opinion on the wire: ask a server with NVIDIA's own clients. Runs in MLServer's environment, without strobe.

Reads an npz file of input tensors, and writes an npz file with the outputs over HTTP and over gRPC. A port of 0 is left
out. MLServer's REST takes JSON tensors only; `binary` sends bytes over HTTP.
"""

import sys

import numpy as np


def main() -> None:
    import tritonclient.grpc
    import tritonclient.http

    model, output, http_port, grpc_port, how, source, target = sys.argv[1:]
    as_bytes = {"binary_data": how == "binary"}
    pixels = np.load(source)["pixels"]
    out = {}
    for name, library, port in (("http", tritonclient.http, http_port), ("grpc", tritonclient.grpc, grpc_port)):
        if port == "0":
            continue
        extra = as_bytes if name == "http" else {}
        client = library.InferenceServerClient(f"127.0.0.1:{port}")
        rows = []
        for start in range(0, len(pixels), 8):
            part = pixels[start : start + 8]
            tensor = library.InferInput("images", list(part.shape), "FP32")
            wanted = [library.InferRequestedOutput(output, **extra)]
            tensor.set_data_from_numpy(part, **extra)
            rows.append(client.infer(model, [tensor], outputs=wanted).as_numpy(output))
        client.close()
        out[name] = np.concatenate(rows)
    np.savez(target, **out)


if __name__ == "__main__":
    main()
