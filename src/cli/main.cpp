#include "cli/program.h"

int main(int argc, char** argv) {
    return kaiju::cli::run_program(argc, argv);
}
