package simulation

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"pintle.dev/pintle/kernel/readable"
)

// A live picture has every kind that plugins may read, as the scheduler has. One that
// the API does not serve is empty.
func TestLiveListsEveryReadableKind(t *testing.T) {
	const missing = "CSINode"
	paths := map[string]string{"/api/v1/nodes": "Node", "/api/v1/pods": "Pod"}
	for _, name := range readable.Names() {
		kind, _ := readable.Of(name)
		r := kind.Resource
		paths[strings.Replace("/apis/"+r.Group+"/"+r.Version+"/"+r.Resource, "/apis//", "/api/", 1)] = name
	}
	asked := map[string]int{}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		kind := paths[r.URL.Path]
		asked[kind]++
		w.Header().Set("Content-Type", "application/json")
		if kind == "" || kind == missing {
			w.WriteHeader(http.StatusNotFound)
			fmt.Fprint(w, `{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"NotFound","code":404}`)
			return
		}
		version := strings.TrimPrefix(strings.TrimPrefix(r.URL.Path[:strings.LastIndex(r.URL.Path, "/")], "/apis/"), "/api/")
		fmt.Fprintf(w, `{"kind":"%sList","apiVersion":"%s","items":[{"metadata":{"name":"one","uid":"u"}}]}`, kind, version)
	}))
	defer server.Close()
	client, err := kubernetes.NewForConfig(&rest.Config{Host: server.URL})
	if err != nil {
		t.Fatal(err)
	}
	cluster, err := Live(t.Context(), client)
	if err != nil {
		t.Fatal(err)
	}
	if len(cluster.Nodes) != 1 || len(cluster.Pods) != 1 || len(cluster.Objects) != len(readable.Names())-1 {
		t.Errorf("%d nodes, %d pods, %d objects of %d kinds", len(cluster.Nodes), len(cluster.Pods), len(cluster.Objects), len(readable.Names()))
	}
	for path, kind := range paths {
		if asked[kind] != 1 {
			t.Errorf("%s was listed %d times", path, asked[kind])
		}
	}
}
