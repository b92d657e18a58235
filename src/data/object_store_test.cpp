// SPDX-License-Identifier: Apache-2.0
#include "gpemu/data/object_store.hpp"

#include <map>
#include <string>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "index_reader.hpp"

namespace gpemu::data {
namespace {

std::string page_of(const std::string& inside) {
  return "<?xml version=\"1.0\"?><ListBucketResult "
         "xmlns=\"http://s3.amazonaws.com/doc/2006-03-01/\">" +
         inside + "</ListBucketResult>";
}

TEST(ObjectStoreTest, ReadsAPageOfAListing) {
  const auto page = parse_object_page(
      page_of("<IsTruncated>true</IsTruncated>"
              "<Contents><Key>a%2Fone%20%26%C3%A4.jpg</Key><ETag>x</ETag><Size>12</Size></Contents>"
              "<Contents><Size>0</Size><Key>b+c</Key></Contents>"
              "<NextContinuationToken>abc=</NextContinuationToken>"));
  ASSERT_TRUE(page) << page.error().message;
  ASSERT_EQ(page->objects.size(), 2);
  EXPECT_EQ(page->objects[0].key, "a/one &\xC3\xA4.jpg");
  EXPECT_EQ(page->objects[0].bytes, 12);
  EXPECT_EQ(page->objects[1].key, "b c");
  EXPECT_EQ(page->next, "abc=");
  EXPECT_EQ(parse_object_page(page_of(""))->objects.size(), 0);
}

TEST(ObjectStoreTest, AListingMayTakeAMillisecondForEachObject) {
  using namespace std::chrono_literals;
  EXPECT_EQ(time_of_listing(10s, 0), 10s);
  // Ten thousandths of what servers give: a page of 1,000 keys in a second.
  EXPECT_EQ(time_of_listing(10s, 1000), 11s);
}

TEST(ObjectStoreTest, KeepsAListingInLittleMoreMemoryThanItsKeys) {
  ObjectList list;
  ObjectPage page;
  for (int i = 0; i < 1000; ++i) {
    page.objects.push_back({.key = fmt::format("train/n01440764/n01440764_{:06}.JPEG", i),
                            .bytes = static_cast<Bytes>(i)});
  }
  list.add(page);
  list.add(page);
  EXPECT_EQ(list.size(), 2000);
  // 37 bytes of a key, one behind it, and 8 of its size; and what each page has.
  EXPECT_EQ(list.bytes(), 2000 * (37 + 1 + 8) + 2 * 56);
  const auto entries = list.entries();
  ASSERT_EQ(entries.size(), 2000);
  EXPECT_EQ(entries[1002].key, "train/n01440764/n01440764_000002.JPEG");
  EXPECT_EQ(entries[1002].bytes, 2);
}

TEST(ObjectStoreTest, ReadsNoObjectsThatWereNotAskedForOrAreTooLarge) {
  ObjectList list;
  list.add({.objects = {{.key = "x", .bytes = 1},
                        {.key = "photos/a/1.jpg", .bytes = 2},
                        {.key = "photos/b/2.txt", .bytes = Bytes{1} << 62}},
            .next = ""});
  const auto index = index_objects("s3://bucket/", "photos/", list);
  ASSERT_TRUE(index) << index.error().message;
  EXPECT_EQ(index->samples.size(), 1);
  list.add({.objects = {{.key = "photos/b/3.jpg", .bytes = Bytes{1} << 62}}, .next = ""});
  const auto large = index_objects("s3://bucket/", "photos/", list);
  ASSERT_FALSE(large);
  EXPECT_EQ(large.error().code, ErrorCode::kCorruptData);
  EXPECT_NE(large.error().message.find("photos/b/3.jpg has 4611686018427387904 bytes"),
            std::string::npos)
      << large.error().message;
}

TEST(ObjectStoreTest, RefusesWhatIsNoListing) {
  const std::string whole = page_of("<Contents><Key>a</Key><Size>1</Size></Contents>");
  for (const std::string& wrong :
       {std::string(), std::string("<html>503</html>"),
        page_of("<Contents><Key>a</Key></Contents>"),
        page_of("<Contents><Size>1</Size></Contents>"),
        page_of("<Contents><Key>a</Key><Size>-1</Size></Contents>"),
        page_of("<Contents><Key>a</Key><Size>1x</Size></Contents>"),
        page_of("<Contents><Key>%zz</Key><Size>1</Size></Contents>"),
        page_of("<Contents><Key>a%2</Key><Size>1</Size></Contents>"),
        page_of("<Contents><Key>a%00</Key><Size>1</Size></Contents>"),
        page_of("<Contents><Key>a</Key><Size>99999999999999999999999</Size></Contents>")}) {
    const auto page = parse_object_page(wrong);
    ASSERT_FALSE(page) << wrong;
    EXPECT_EQ(page.error().code, ErrorCode::kCorruptData);
  }
  // Cut off anywhere, it has fewer objects or is refused.
  for (std::size_t size = 0; size < whole.size(); ++size) {
    const auto page = parse_object_page(whole.substr(0, size));
    EXPECT_LE(page ? page->objects.size() : 0, 1) << size;
  }
}

TEST(ObjectStoreTest, TakesItsSettingsFromTheEnvironment) {
  std::map<std::string, std::string> variables = {{"AWS_ENDPOINT_URL", "http://a:1//"},
                                                  {"AWS_DEFAULT_REGION", "eu-west-1"},
                                                  {"AWS_ACCESS_KEY_ID", "key"},
                                                  {"AWS_SECRET_ACCESS_KEY", "secret"}};
  const Lookup lookup = [&variables](const char* name) -> const char* {
    const auto found = variables.find(name);
    return found != variables.end() ? found->second.c_str() : nullptr;
  };
  const ObjectStoreSettings settings = object_store_settings(lookup);
  EXPECT_EQ(settings.endpoint, "http://a:1");
  EXPECT_EQ(settings.region, "eu-west-1");
  EXPECT_EQ(settings.key, "key");
  EXPECT_EQ(settings.secret, "secret");
  variables["AWS_REGION"] = "us-west-2";
  EXPECT_EQ(object_store_settings(lookup).region, "us-west-2");
  variables.clear();
  EXPECT_EQ(object_store_settings(lookup).region, "us-east-1");
}

TEST(ObjectStoreTest, RefusesWrongPlaces) {
  EXPECT_FALSE(ObjectStore::open("", {}));
  EXPECT_FALSE(ObjectStore::open("photos", {.endpoint = "ftp://a"}));
  EXPECT_TRUE(is_object_path("s3://photos"));
  EXPECT_FALSE(is_object_path("s3"));
  EXPECT_FALSE(is_object_path("/s3://photos"));
}

}  // namespace
}  // namespace gpemu::data
