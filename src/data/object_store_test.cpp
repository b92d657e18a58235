// SPDX-License-Identifier: Apache-2.0
#include "gpemu/data/object_store.hpp"

#include <map>
#include <string>

#include <gtest/gtest.h>

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
