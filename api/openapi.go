// Package api holds the description of the REST API, as the server serves it at /api/v1/openapi.yaml.
package api

import _ "embed"

// OpenAPI is the OpenAPI document. The tests of bot/api hold every request and answer against it.
//
//go:embed openapi.yaml
var OpenAPI []byte
