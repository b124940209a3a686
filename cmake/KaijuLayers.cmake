# The dependency law of the source tree: folders are layers, and a layer sees only the layers it names.
#
# Every layer is a static library kaiju_<name>. Its headers are reachable as "<name>/file.h" through an include folder
# of its own (a link to src/<name>), so an #include of a layer that was not named does not compile. One shared include
# root would let any file reach any layer, and the law would be a wish. The links lie in build/layers, the same for
# every preset, so that a compiler cache serves all of them.
function(kaiju_layer name)
    cmake_parse_arguments(ARG "" "" "SOURCES;DEPENDS;PRIVATE" ${ARGN})
    set(root ${PROJECT_SOURCE_DIR}/build/layers/${name})
    file(MAKE_DIRECTORY ${root})
    file(CREATE_LINK ${PROJECT_SOURCE_DIR}/src/${name} ${root}/${name} SYMBOLIC)
    add_library(kaiju_${name} STATIC ${ARG_SOURCES})
    target_include_directories(kaiju_${name} PUBLIC ${root})
    target_link_libraries(kaiju_${name} PUBLIC ${ARG_DEPENDS} PRIVATE ${ARG_PRIVATE} kaiju_warnings)
    set_property(GLOBAL APPEND PROPERTY KAIJU_LAYERS kaiju_${name})
endfunction()

# One unit-test program for a layer: tests/<layer>/*_test.cpp, linked to that layer (and what it depends on) only.
function(kaiju_test layer)
    cmake_parse_arguments(ARG "" "" "SOURCES;DEPENDS" ${ARGN})
    add_executable(${layer}_tests ${ARG_SOURCES})
    target_link_libraries(${layer}_tests PRIVATE ${ARG_DEPENDS} kaiju_warnings kaiju_test_support GTest::gtest_main)
    gtest_discover_tests(${layer}_tests TEST_PREFIX "${layer}." DISCOVERY_TIMEOUT 60 PROPERTIES TIMEOUT 600)
endfunction()
