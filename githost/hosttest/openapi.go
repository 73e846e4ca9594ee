package hosttest

import "embed"

// OpenAPI holds testdata/openapi: what hosts publish about their API and
// webhooks, cut to what is used here, and where that is known to be wrong or
// silent. Package contract checks against it.
//
//go:embed testdata/openapi
var OpenAPI embed.FS
