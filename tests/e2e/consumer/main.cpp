// What a program of somebody else does with libkaiju: open a knot, decode a tensor, search a point.
#include <kaiju/kaiju.h>

#include <cstdio>

int main(int argc, char** argv) {
    try {
        const auto model = kaiju::format::ModelFile::open(argc > 1 ? argv[1] : "");
        for (size_t i = 0; i < model->tensors().size(); ++i) {
            const auto& tensor = model->tensors()[i];
            std::vector<float> row(tensor.cols());
            kaiju::codec::make_tensor_decoder(tensor, model->payload(i))->decode_rows(0, 1, row.data());
            std::printf("%s %s %a\n", tensor.name.c_str(), tensor.type.c_str(), static_cast<double>(row[0]));
        }
        const std::vector<float> origin(24);
        std::vector<kaiju::lattice::Nearest> nearest(1);
        kaiju::lattice::make_decoder("exhaustive")->nearest(origin, nearest);
        std::printf("libkaiju %s: distance %g\n", KAIJU_VERSION, nearest[0].d2);
        return 0;
    } catch (const kaiju::Error& error) {
        std::printf("%s\n", error.what());
        return static_cast<int>(error.code());
    }
}
