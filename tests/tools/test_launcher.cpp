// Stands in for the dgxmm binary where a test starts engines.
#include "adapters/process/launch.h"

int main(int argc, char** argv) { return dgxmm::process::launch_engine(argc, argv); }
