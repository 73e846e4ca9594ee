// Package contract holds adapters, fakes and recorded payloads to what GitHub
// publishes about its API and webhooks. Only tests import it.
//
// [Transport] and [Handler] stand between an adapter and a host and check every
// request and every answer; [Scripted] does the same where a test writes the
// answers, which it completes first; [Webhook] checks a payload. They are part
// of the ordinary suites: reading the descriptions takes a fraction of a second
// once a process, and a check far less than the git it stands beside, so there
// is no build without them and none in which they are forgotten.
//
// What is checked of a request: GitHub has the operation; path, query and body
// are as described; there is no query parameter and no key of the body, at any
// depth, that GitHub does not know and would silently ignore. Of an answer: the
// status is one the operation has, the body is as described and has no key
// GitHub does not send. Of a webhook: the same as of an answer's body.
//
// The descriptions lie in hosttest/testdata/openapi. Where they are wrong or
// silent, exceptions.json says so one by one, each with its reason; `make
// contract` fails for one that nothing needs any more.
//
// GitLab's own description may not be copied here, so gitlab.yml is written in our
// words and only as far as it is used; [GitLab] and [GitLabWebhook] hold requests,
// answers and payloads to it in the same way.
package contract
