package api

// Routes lists method and path of every route.
func (a *API) Routes() (list []string) {
	for _, r := range a.routes() {
		list = append(list, r.method+" "+r.path)
	}
	return list
}
