package main

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/batchbot/batchbot/githost/fakehost"
)

const apiToken = "0123456789abcdef-operator"

// curl sends a request to the REST API and returns what it was answered.
func curl(t *testing.T, method, url, token, body string, header ...string) (status int, answer string, headers http.Header) {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), method, url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	if token != "" {
		request.Header.Set("Authorization", "Bearer "+token)
	}
	if body != "" {
		request.Header.Set("Content-Type", "application/json")
	}
	for i := 0; i+1 < len(header); i += 2 {
		request.Header.Set(header[i], header[i+1])
	}
	response, err := client.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	content, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	return response.StatusCode, string(content), response.Header
}

// The real process with a token in a file: a train is made and boarded through the API, and the merge request's thread tells of it.
func TestTheAPIOfTheProcess(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.write(t, "api-token", apiToken+"\n")
	w.configure(t, fmt.Sprintf("\napi: {tokens: [{name: release, role: operator, token_file: %s/api-token}]}\n", w.dir))
	if err := w.host.AddRepository(fakehost.NewRepository{Owner: "o", Name: "n", Permissions: map[string]string{"ann": fakehost.RoleWrite}}); err != nil {
		t.Fatal(err)
	}
	var numbers []int
	for _, name := range []string{"one", "two"} {
		number, err := w.host.OpenMR("o/n", fakehost.NewMR{Author: "ann", Head: name, Title: name, Files: map[string]string{name: "b\n"}})
		if err != nil {
			t.Fatal(err)
		}
		numbers = append(numbers, number)
	}
	process, url := startServe(t, w.dir, w.file)
	w.host.SetWebhook(w.webhook(url), hookSecret)

	if status, answer, header := curl(t, "GET", url+"/api/v1/queues", "", ""); status != 401 || header.Get("WWW-Authenticate") == "" || strings.Contains(answer, "o/n") {
		t.Errorf("without a token it answers %d %s", status, answer)
	}
	if status, answer, _ := curl(t, "GET", url+"/api/v1/openapi.yaml", apiToken, ""); status != 200 || !strings.HasPrefix(answer, "openapi:") {
		t.Errorf("the document is answered %d %.80s", status, answer)
	}
	if _, err := w.host.Comment("o/n", numbers[0], "ann", "/batch"); err != nil { // makes the queue
		t.Fatal(err)
	}
	var queues struct {
		Items []struct {
			ID   int64
			Name string
		}
	}
	eventually(t, "the queue", func() bool {
		_, answer, _ := curl(t, "GET", url+"/api/v1/queues", apiToken, "")
		return json.Unmarshal([]byte(answer), &queues) == nil && len(queues.Items) == 1
	})
	train := fmt.Sprintf(`{"queue": %d, "name": "friday", "seats": 1, "departs_at": %q}`, queues.Items[0].ID, time.Now().Add(time.Hour).UTC().Format(time.RFC3339))
	var path string
	for i := range 2 { // a client that lost the answer sends it again
		status, answer, header := curl(t, "POST", url+"/api/v1/trains", apiToken, train, "Idempotency-Key", "friday-1")
		if status != 201 || (header.Get("Idempotent-Replayed") == "true") != (i == 1) || path != "" && header.Get("Location") != path {
			t.Fatalf("making a train is answered %d %s, %v", status, answer, header)
		}
		path = header.Get("Location")
	}
	seat := fmt.Sprintf("%s%s/seats/%d", url, path, numbers[1])
	if status, answer, _ := curl(t, "POST", seat, apiToken, ""); status != 201 || !strings.Contains(answer, `"status":"CONFIRMED"`) {
		t.Fatalf("taking a seat is answered %d %s", status, answer)
	}
	eventually(t, "the thread to tell of the seat", func() bool {
		comments, err := w.host.Comments("o/n", numbers[1])
		if err != nil {
			t.Fatal(err)
		}
		for _, c := range comments {
			if c.Author == demoBot && strings.Contains(c.Body, "friday") {
				return true
			}
		}
		return false
	})
	if status, answer, _ := curl(t, "DELETE", seat, apiToken, ""); status != 200 || answer != `{"promoted":false}`+"\n" {
		t.Errorf("leaving is answered %d %s", status, answer)
	}
	_, metrics := get(t, url+"/metrics")
	contains(t, "/metrics", metrics, `batchbot_api_requests_total{code="201",route="POST /api/v1/trains"} 2`,
		`batchbot_api_requests_total{code="201",route="POST /api/v1/trains/{id}/seats/{mr}"} 1`, `batchbot_api_requests_total{code="401",route="GET /api/v1/queues"} 1`)
	process.mu.Lock()
	log := process.log.String()
	process.mu.Unlock()
	contains(t, "the log", log, `"by":"api:release","method":"POST","path":"/api/v1/trains","status":201`)
	if strings.Contains(log, apiToken) {
		t.Error("the log shows the token")
	}
}

// Without tokens nothing of the API is there, wherever the server listens.
func TestWithoutTokensThereIsNoAPI(t *testing.T) {
	t.Parallel()
	for _, listen := range []string{"127.0.0.1:0", "0.0.0.0:0"} {
		w := newWorld(t)
		w.write(t, "batchbot.yml", fmt.Sprintf("listen: %s\ndata_dir: %s/data\nhosts:%s", listen, w.dir, w.hostSettings(w.kind, w.host.url)))
		p := w.start(t)
		for _, path := range []string{"/api/v1/queues", "/api/v1/openapi.yaml", "/api/v1/trains", "/api/"} {
			if status, answer, _ := curl(t, "GET", p.url+path, apiToken, ""); status != 404 || !strings.Contains(answer, "/problems/api-off") || !strings.Contains(answer, "api.tokens") {
				t.Errorf("%s at %s is answered %d %s", path, listen, status, answer)
			}
		}
	}
}
