#include <algorithm>
#include <fstream>
#include <map>
#include <utility>
#include <nlohmann/json.hpp>

#include <headroom/data/bad_images.hpp>
#include <headroom/data/coco.hpp>
#include <headroom/data/mask_shapes.hpp>
#include <headroom/memory/error.hpp>
#include <headroom/tests/data/pictures.hpp>
#include <headroom/tests/data/scratch.hpp>
#include <headroom/tests/support/source_path.hpp>

namespace headroom::data {
namespace coco_test {

using nlohmann::json;
using test::numbered_image;
using test::ScratchFolder;
using test::throws;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::UnorderedElementsAre;

std::filesystem::path reference_file() { return test::source_path("tests/reference/coco.json"); }

std::vector<uint32_t> runs_of(const Image& mask) {
    std::vector<uint32_t> runs{0};
    uint8_t value = 0;
    for (int64_t x = 0; x < mask.width; ++x)
        for (int64_t y = 0; y < mask.height; ++y) {
            if (*mask.at(y, x) != value) {
                value = *mask.at(y, x);
                runs.push_back(0);
            }
            ++runs.back();
        }
    return runs;
}

/// Images of the sizes that the reference's file says.
class Coco : public ::testing::Test {
  protected:
    Coco() {
        write_png(folder_.path() / "a.png", numbered_image(37, 53, 3));
        write_png(folder_.path() / "b.png", numbered_image(64, 20, 3));
        write_png(folder_.path() / "empty.png", numbered_image(8, 9, 3));
    }

    CocoImages read(const json& contents, CocoOptions options = {}) const {
        return {folder_.write("a.json", contents.dump()), folder_.path(), options};
    }

    /// A file with one image of 20 x 30 pixels and one annotation.
    static json small() {
        return {{"images", {{{"id", 1}, {"file_name", "c.png"}, {"height", 20}, {"width", 30}}}},
                {"categories", {{{"id", 4}, {"name", "cat"}}}},
                {"annotations",
                 {{{"id", 17},
                   {"image_id", 1},
                   {"category_id", 4},
                   {"bbox", {1, 2, 3, 4}},
                   {"segmentation", {{1, 2, 4, 2, 4, 6}}}}}}};
    }

    /// Why the annotation of the small file is left out, with `key` changed.
    std::string why(const char* key, const json& value, CocoOptions options = {}) const {
        json contents = small();
        contents["annotations"][0][key] = value;
        const CocoImages source = read(contents, options);
        EXPECT_EQ(source.objects(), 0) << key << ": " << value;
        EXPECT_EQ(source.skipped().size(), 1u);
        return source.skipped().empty() ? "" : source.skipped()[0];
    }

    ScratchFolder folder_;
};

TEST_F(Coco, HasTheMasksOfPycocotoolsAndTheFieldsOfTheirAnnotations) {
    const CocoImages source(reference_file(), folder_.path());
    const json contents = json::parse(std::ifstream(reference_file()));
    std::map<int64_t, json> annotations;
    for (const json& annotation : contents["annotations"]) annotations[annotation["id"]] = annotation;
    const std::map<int, int32_t> labels{{1, 1}, {18, 2}, {90, 3}};
    std::size_t seen = 0;
    for (int64_t i = 0; i < source.size(); ++i)
        for (const ImageObject& object : source.load(i).objects) {
            const json& annotation = annotations.at(object.id);
            EXPECT_EQ(object.label, labels.at(annotation["category_id"])) << annotation;
            EXPECT_EQ(runs_of(object.mask), annotation["expected"].get<std::vector<uint32_t>>()) << annotation;
            EXPECT_EQ(object.crowd, annotation["iscrowd"] == 1);
            ++seen;
        }
    EXPECT_EQ(seen, annotations.size());
}

TEST_F(Coco, HasLabelsInTheOrderOfIdsOrTheIds) {
    const CocoImages source(reference_file(), folder_.path());
    EXPECT_EQ(source.classes(), (std::vector<std::string>{"background", "person", "dog", "toothbrush"}));
    ASSERT_EQ(source.size(), 3);
    EXPECT_EQ(source.name(1), (folder_.path() / "b.png").native());
    const ImageSample sample = source.load(0);
    EXPECT_EQ(sample.image, numbered_image(37, 53, 3));
    EXPECT_EQ(sample.objects[0].box, (Box{1.5f, 2.25f, 11.5f, 22.75f}));
    EXPECT_EQ(sample.objects[0].label, 3);
    EXPECT_TRUE(source.load(2).objects.empty());

    const CocoImages by_id(reference_file(), folder_.path(),
                           {.masks = false, .labels_are_ids = true, .classes = 91, .keep_empty = false});
    EXPECT_EQ(by_id.size(), 2);
    EXPECT_EQ(by_id.load(0).objects[0].label, 90);
    EXPECT_TRUE(by_id.load(0).objects[0].mask.empty());
    EXPECT_EQ(by_id.classes().size(), 91);
    EXPECT_EQ(by_id.classes()[18], "dog");
    EXPECT_THAT([&] { CocoImages(reference_file(), folder_.path(), {.classes = 3}); },
                throws<FileError>("category 90 (\"toothbrush\") has the label 3, which is not in 1 to 2"));
}

TEST_F(Coco, SaysOfAnAnnotationWhyItIsLeftOut) {
    EXPECT_THAT(why("bbox", {1, 2, 0, 4}),
                HasSubstr("a.json: annotation 17: the box at x = 1, y = 2, 0 wide, 4 high, has no area on image 1"));
    EXPECT_THAT(why("bbox", {1, 2, 3, -4}), HasSubstr("has no area"));
    EXPECT_THAT(why("bbox", {30, 2, 3, 4}),
                HasSubstr("annotation 17: the box at x = 30, y = 2, 3 wide, 4 high, is outside "
                          "of image 1, which is 30 wide, 20 high"));
    EXPECT_THAT(why("bbox", {1, 2, 3}), HasSubstr("annotation 17: \"bbox\" has 3 numbers instead of 4"));
    EXPECT_THAT(why("bbox", {1, 2, 3, "4"}), HasSubstr("annotation 17: \"bbox\" must contain only numbers"));
    EXPECT_THAT(why("image_id", 2), HasSubstr("annotation 17 belongs to image 2, which is missing"));
    EXPECT_THAT(why("category_id", 5), HasSubstr("annotation 17 has category 5, which is missing"));
    EXPECT_THAT(why("category_id", 4.5),
                HasSubstr("annotation 17: \"category_id\" is neither a whole number nor a string"));
    EXPECT_THAT(why("id", nullptr), HasSubstr("annotation number 0: \"id\" is neither a whole number nor a string"));
    EXPECT_THAT(why("iscrowd", "yes"), HasSubstr("annotation 17: \"iscrowd\" is neither a number nor true or false"));
    EXPECT_THAT(why("segmentation", json::array()), HasSubstr("annotation 17 has no mask: \"segmentation\" is empty"));
    EXPECT_THAT(why("segmentation", nullptr), HasSubstr("annotation 17 has no mask: \"segmentation\" is empty"));
    EXPECT_THAT(why("segmentation", "none"),
                HasSubstr("annotation 17: \"segmentation\" is neither polygons nor run lengths"));
    EXPECT_THAT(why("segmentation", {{"counts", {1, -2}}}),
                HasSubstr("annotation 17: a run must have 0 to 2^32 - 1 pixels, got -2"));
    EXPECT_THAT(why("segmentation", {{"counts", "a\x7f"}}), HasSubstr("annotation 17: the run lengths are damaged"));
    EXPECT_THAT(why("segmentation", {{"size", {1, 2}}}), HasSubstr("annotation 17 has no \"counts\""));
    EXPECT_THAT(why("segmentation", {{1, 2, 3, 4}}),
                HasSubstr("a.json: annotation 17: a polygon needs an even number of coordinates"));
    EXPECT_THAT(why("segmentation", {{1, 2, 3, 4, 100, 6}}),
                HasSubstr("annotation 17: the coordinate 100 of a polygon is far outside of the image, of 30 pixels"));
    EXPECT_THAT(why("segmentation", {{"counts", {10, 589}}}),
                HasSubstr("annotation 17: runs of 599 pixels do not form a mask that is 30 wide, 20 high"));
    EXPECT_THAT(why("segmentation", {{"counts", {10, 4294967295u, 4294967295u}}}),
                HasSubstr("annotation 17: runs of 8589934600 pixels"));
    EXPECT_THAT(why("segmentation", {{"size", {30, 20}}, {"counts", {10, 590}}}),
                HasSubstr("annotation 17: the height and width of its mask are [30, 20], but image 1 is 30 wide"));
    json contents = small();
    contents["annotations"][0].erase("bbox");
    EXPECT_THAT(read(contents).skipped(), ElementsAre(HasSubstr("annotation 17 has no \"bbox\"")));
    contents = small();
    contents["annotations"][0].erase("segmentation");
    EXPECT_THAT(read(contents).skipped(),
                ElementsAre(HasSubstr("annotation 17 has no mask: \"segmentation\" is missing")));
    EXPECT_EQ(read(contents, {.masks = false}).objects(), 1);
    contents["annotations"] = {nullptr, small()["annotations"][0]};
    EXPECT_EQ(read(contents).objects(), 1);
    EXPECT_THAT(read(contents).skipped(), ElementsAre(HasSubstr("\"annotations\" must contain only objects")));
}

TEST_F(Coco, LeavesOddAnnotationsOutAndReadsTheOthers) {
    json contents = small();
    json& annotations = contents["annotations"];
    const json good = annotations[0];
    const auto add = [&](int id, const char* key, const json& value) {
        annotations.push_back(good);
        annotations.back()["id"] = id;
        annotations.back()[key] = value;
    };
    add(18, "bbox", {5, 5, 0, 1});
    add(19, "image_id", 99);
    add(20, "segmentation", {{1, 2, 3, 4}});
    add(21, "segmentation", json::array());
    add(22, "bbox", {5, 5, 2, 1});
    add(23, "iscrowd", 1);  // takes no place
    write_png(folder_.path() / "c.png", Image(20, 30, 3));
    const CocoImages source = read(contents);
    const std::vector<ImageObject> objects = source.load(0).objects;
    ASSERT_EQ(objects.size(), 3u);
    EXPECT_EQ(objects[0].id, 17);
    EXPECT_EQ(objects[1].id, 22);
    EXPECT_TRUE(objects[2].crowd);
    EXPECT_THAT(
        source.skipped(),
        UnorderedElementsAre(HasSubstr("annotation 18: the box"), HasSubstr("annotation 19 belongs to image 99"),
                             HasSubstr("annotation 20: a polygon needs"), HasSubstr("annotation 21 has no mask")));
    EXPECT_TRUE(source.trimmed().empty());
    EXPECT_EQ(source.objects_beyond(1), 1);
    EXPECT_EQ(source.objects_beyond(2), 0);
    // What reaches out is clipped.
    annotations = {good};
    annotations[0]["bbox"] = {-3, 15, 10, 10};
    EXPECT_EQ(read(contents).load(0).objects[0].box, (Box{0, 15, 7, 20}));
}

TEST_F(Coco, DrawsTheGoodPolygonsOfAnAnnotation) {
    json contents = small();
    write_png(folder_.path() / "c.png", Image(20, 30, 3));
    const json square = {4, 2, 20, 2, 20, 18, 4, 18};
    const auto pixels = [&](const json& polygons) {
        contents["annotations"][0]["segmentation"] = polygons;
        const CocoImages source = read(contents);
        EXPECT_TRUE(source.skipped().empty());
        EXPECT_THAT(source.trimmed(), ElementsAre(HasSubstr("a.json: annotation 17: ")));
        return std::ranges::count(source.load(0).objects.at(0).mask.pixels, 1);
    };
    EXPECT_EQ(pixels({square, {5, 5, 6, 6}}), 256);  // as pycocotools
    EXPECT_EQ(pixels({{5, 5, 6, 6}, square}), 256);
    EXPECT_EQ(pixels({square, {5, 5, 6, 6, 1e6, 7}}), 256);
    EXPECT_EQ(pixels({square, {5, 5, 6, 6, 7, 7, 8}}), 256);
    EXPECT_EQ(pixels({square, json::array()}), 256);
}

TEST_F(Coco, ReadsValuesAsPythonDoes) {
    write_png(folder_.path() / "c.png", Image(20, 30, 3));
    const std::vector<std::pair<json, bool>> crowds{{nullptr, false}, {false, false}, {0, false},  {0.0, false},
                                                    {true, true},     {1, true},      {1.0, true}, {2, true}};
    for (const auto& [value, crowd] : crowds) {
        json contents = small();
        contents["annotations"][0]["iscrowd"] = value;
        const std::vector<ImageObject> objects = read(contents).load(0).objects;
        ASSERT_EQ(objects.size(), 1u) << value;
        EXPECT_EQ(objects[0].crowd, crowd) << value;
    }
    const std::vector<std::pair<json, json>> ids{{1.0, 1},   {1, 1.0},     {"1", 1},  {1, "1"},
                                                 {"a", "a"}, {"01", "01"}, {-1, -1.0}};
    for (const auto& [listed, named] : ids) {
        json contents = small();
        contents["images"][0]["id"] = listed;
        contents["images"][0]["height"] = 20.0;
        contents["images"][0]["width"] = 30.0;
        contents["annotations"][0]["image_id"] = named;
        EXPECT_EQ(read(contents).objects(), 1) << listed << ", " << named;
        contents = small();
        contents["categories"][0]["id"] = listed;
        contents["annotations"][0]["category_id"] = named;
        EXPECT_EQ(read(contents).load(0).objects.at(0).label, 1) << listed << ", " << named;
    }
    json contents = small();
    contents["annotations"][0]["image_id"] = "01";  // as in Python, another id than "1"
    EXPECT_THAT(read(contents).skipped(), ElementsAre(HasSubstr("belongs to image 01, which is missing")));
    contents = small();
    contents["annotations"].push_back(contents["annotations"][0]);
    contents["annotations"][0]["id"] = 17.0;
    contents["annotations"][1]["id"] = "seventeen";
    const std::vector<ImageObject> objects = read(contents).load(0).objects;
    ASSERT_EQ(objects.size(), 2u);
    EXPECT_EQ(objects[0].id, 17);
    EXPECT_EQ(objects[1].id, 1);  // its place in the file
}

TEST_F(Coco, NumbersCategoriesWhoseIdsAreTextsBehindTheOthers) {
    json contents = small();
    contents["categories"] = {{{"id", "dog"}, {"name", "a dog"}},
                              {{"id", "cat"}, {"name", "a cat"}},
                              {{"id", "12"}, {"name", "x"}},
                              {{"id", 4}, {"name", "y"}}};
    EXPECT_EQ(read(contents).classes(), (std::vector<std::string>{"background", "y", "x", "a cat", "a dog"}));
    EXPECT_THAT([&] { read(contents, {.labels_are_ids = true}); },
                throws<FileError>("category cat (\"a cat\"): its id is not a number, as a label must be"));
}

TEST_F(Coco, SaysWhatTheFileLacks) {
    const auto refuse = [&](const std::string& text, const char* what) {
        EXPECT_THAT([&] { CocoImages(folder_.write("b.json", text), folder_.path()); },
                    throws<FileError>("b.json: ", what));
    };
    refuse("{\"images\": [\n{\"id\": }", "parse error at line 2, column 8");
    refuse("[1, 2]", "is not an object with \"images\"");
    refuse("{}", "has no list \"images\"");
    refuse(R"({"images": [], "categories": [], "annotations": []})", "has no images");
    refuse(R"({"images": [{"id": 1}]})", "image 1 has no \"file_name\"");
    refuse(R"({"images": [{"file_name": "a"}]})", "image number 0 has no \"id\"");
    refuse(R"({"images": [{"id": 1, "file_name": "a", "height": 0, "width": 2}]})",
           "image 1: height and width must be at least 1, got 2 wide, 0 high");
    refuse(R"({"categories": [{"id": 1, "name": "a"}, {"id": 1, "name": "b"}]})", "category 1 appears twice");
    refuse(
        R"({"images": [{"id": 1, "file_name": "a", "height": 1, "width": 2}], "categories": [], "annotations": null})",
        "has no list \"annotations\"");
    refuse(R"({"images": [1, 2], "categories": [], "annotations": []})", "\"images\" must contain only objects");
    refuse(R"({"images": [{"id": 1, "file_name": "a", "height": 1.5, "width": 2}]})",
           "image 1: \"height\" is not a whole number");
    refuse(R"({"images": [{"id": [], "file_name": "a"}]})",
           "image number 0: \"id\" is neither a whole number nor a string");
    json contents = small();
    EXPECT_EQ(read(contents).objects(), 1);
    contents["annotations"][0]["iscrowd"] = 1;
    EXPECT_EQ(read(contents).objects(), 0);
    contents["images"].push_back(contents["images"][0]);
    EXPECT_THAT([&] { read(contents); }, throws<FileError>("image 1 appears twice"));
    contents = small();
    contents["annotations"] = json::array();
    EXPECT_THAT([&] { read(contents, {.keep_empty = false}); }, throws<FileError>("has no image with an object"));
    contents = small();
    contents["annotations"][0]["image_id"] = 7;
    EXPECT_THAT([&] { read(contents, {.keep_empty = false}); },
                throws<FileError>("has no image with an object", "annotation 17 belongs to image 7"));
    EXPECT_THAT([&] { CocoImages(folder_.path() / "none.json", folder_.path()); },
                throws<FileError>("none.json: no such file"));
}

TEST_F(Coco, SaysOfAnImageWhatDiffers) {
    const CocoImages source = read(small());
    EXPECT_THAT([&] { source.load(0); }, throws<BadImage>("c.png: no such file"));
    write_png(folder_.path() / "c.png", Image(30, 20, 3));
    EXPECT_THAT([&] { source.load(0); },
                throws<BadImage>("c.png: is 20 wide, 30 high, but", "a.json says that image 1 is 30 wide, 20 high"));
    write_png(folder_.path() / "c.png", Image(20, 30, 3));
}

// Boxes are of the pixels that were annotated, which the file's size tells from those that are not turned.
TEST_F(Coco, TurnsAnImageWhereOnlyThenItHasTheSizeThatTheFileSays) {
    json contents = small();
    const auto load = [&](const char* file, int64_t height, int64_t width, std::optional<Orientation> orientation,
                          std::size_t bad = 0) {
        std::filesystem::copy_file(test::reference(file), folder_.path() / "c.png",
                                   std::filesystem::copy_options::overwrite_existing);
        contents["images"][0]["height"] = height, contents["images"][0]["width"] = width;
        contents["annotations"][0]["bbox"] = {1, 2, 3, 4};
        const CocoImages source = read(contents, {.masks = false, .orientation = orientation});
        EXPECT_EQ(find_bad_images(source, 1).size(), bad);
        return source.load(0).image;
    };
    const Image stored = test::read_ppm("turned_1.jpg.ppm"), upright = test::read_ppm("turned_6.jpg.ppm");
    EXPECT_EQ(load("turned_6.jpg", 14, 21, {}), stored);
    EXPECT_EQ(load("turned_6.jpg", 21, 14, {}), upright);
    EXPECT_EQ(load("turned_6.jpg", 14, 21, Orientation::stored), stored);
    EXPECT_EQ(load("turned_6.jpg", 21, 14, Orientation::upright), upright);
    EXPECT_EQ(load("turned_3.jpg", 14, 21, {}), stored);  // both fit
    EXPECT_EQ(load("turned_3.jpg", 14, 21, Orientation::upright), test::read_ppm("turned_3.jpg.ppm"));
    EXPECT_THAT([&] { load("turned_6.jpg", 14, 21, Orientation::upright, 1); },
                throws<BadImage>("is 14 wide, 21 high"));
    EXPECT_THAT([&] { load("turned_6.jpg", 21, 14, Orientation::stored, 1); }, throws<BadImage>("is 21 wide, 14 high"));
}

TEST_F(Coco, OpensNoFileWhoseNameIsCutByAZero) {
    json contents = small();
    write_png(folder_.path() / "c.png", Image(20, 30, 3));
    contents["images"][0]["file_name"] = std::string("c.png\0.jpg", 10);
    EXPECT_THAT([&] { read(contents).load(0); }, throws<BadImage>("c.png?.jpg: a path can't contain a zero byte"));
}

TEST_F(Coco, NeedsNoMaskThatIsNotAskedFor) {
    json contents = small();
    contents["annotations"][0]["segmentation"] = {{1, 2}};
    EXPECT_EQ(read(contents, {.masks = false}).objects(), 1);
}

TEST(Runs, AreParsedAsPycocotoolsWritesThem) {
    EXPECT_EQ(parse_runs("53`b0"), (std::vector<uint32_t>{5, 3, 592}));
    EXPECT_TRUE(parse_runs("").empty());
    EXPECT_THAT([] { parse_runs("5`"); }, throws<Error>("damaged at character 2"));
    EXPECT_THAT([] { parse_runs("5 3"); }, throws<Error>("damaged at character 1"));
    EXPECT_THAT([] { parse_runs("O"); }, throws<Error>("-1 pixels"));
    EXPECT_THAT([] { parse_runs("ooooooooooo0"); }, throws<Error>("damaged"));
}

}  // namespace coco_test
}  // namespace headroom::data
