// The little XML that S3 answers with.
#pragma once

#include <functional>
#include <string>
#include <string_view>

namespace kaiju::zoo {

/// Walks a document and calls `visit(path, text)` at the end of every element, path being the names from the
/// root ("ListBucketResult/Contents/Key") without namespaces' prefixes, text the element's own with entities
/// resolved. Attributes, comments and declarations are skipped. Throws bad_input for what is not well-formed,
/// deeper than 32 or uses a DTD.
void walk_xml(std::string_view xml, const std::function<void(const std::string&, const std::string&)>& visit);

/// Text of the first element of that path; empty where there is none, or the text is no XML at all.
[[nodiscard]] std::string xml_text(std::string_view xml, std::string_view path);

}  // namespace kaiju::zoo
