package main

import (
	"errors"
	"net/http"
	"strconv"

	description "github.com/batchbot/batchbot/api"
	"github.com/batchbot/batchbot/bot/api"
	"github.com/batchbot/batchbot/store"
)

// api is the REST API of the program; without tokens in the settings it answers that it is off.
func (p *program) api(m *metrics) http.Handler {
	c := api.Config{
		Store: p.store, Seats: p.applier, Trains: p.trains, Desk: p.desk, Document: description.OpenAPI, Logger: p.log,
		IsMissing: func(err error) bool { return errors.Is(err, store.ErrMissing) },
		Report:    func(route string, status int) { m.api.WithLabelValues(route, strconv.Itoa(status)).Inc() },
	}
	for _, t := range p.settings.API.Tokens {
		c.Tokens = append(c.Tokens, api.Token{Name: t.Name, Role: api.Role(t.Role), Secret: t.Token})
	}
	return api.New(c)
}
