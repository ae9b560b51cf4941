package api_test

import (
	"bytes"
	"encoding/json"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
)

// Lists that are put together from encodings say what lists by the ordinary
// way say (an indented one goes it), of every kind, and every client's form.
func TestSentLists(t *testing.T) {
	s := start(t, t.TempDir())
	ctx := t.Context()
	c := overTLS(t, s)
	for _, name := range []string{"a", "b", "c"} {
		p := pod(name)
		p.Labels = map[string]string{"name": name}
		must(c.CoreV1().Pods("default").Create(ctx, p, metav1.CreateOptions{}))
	}
	must(c.CoreV1().Events("default").Create(ctx, &corev1.Event{
		ObjectMeta: metav1.ObjectMeta{Name: "e"}, InvolvedObject: corev1.ObjectReference{Kind: "Pod", Namespace: "default", Name: "a"},
		Reason: "Started", Message: "<&>", Type: corev1.EventTypeNormal, LastTimestamp: metav1.Now(),
	}, metav1.CreateOptions{}))
	_, lists, err := c.Discovery().ServerGroupsAndResources()
	if err != nil {
		t.Fatal(err)
	}
	var paths []string
	for _, list := range lists {
		root := "/apis/" + list.GroupVersion
		if list.GroupVersion == "v1" {
			root = "/api/v1"
		}
		for _, r := range list.APIResources {
			if slices.Contains(r.Verbs, "list") {
				paths = append(paths, root+"/"+r.Name)
			}
		}
	}
	if len(paths) < 25 {
		t.Fatalf("only %d resources can be listed", len(paths))
	}
	paths = append(paths, "/api/v1/namespaces/default/pods?labelSelector=name%3Da", "/api/v1/pods?limit=2",
		"/api/v1/pods?fieldSelector=metadata.name%3Db", "/api/v1/namespaces/none/pods", "/api/v1/pods?resourceVersion=0")
	decode := scheme.Codecs.UniversalDeserializer().Decode
	for _, path := range paths {
		for range 2 { // the second time from what was kept
			ordinary, sent := atOneRevision(t, c.RESTClient(), path, runtime.ContentTypeJSON)
			if got := bytes.TrimSuffix(sent, []byte("\n")); !bytes.Equal(withoutToken(got), withoutToken(ordinary)) {
				t.Errorf("%s gives\n%s\nwant\n%s", path, got, ordinary)
			}
			if _, _, err := decode(sent, nil, nil); err != nil {
				continue // custom resources and the kernel's own kinds
			}
			ordinary, sent = atOneRevision(t, c.RESTClient(), path, runtime.ContentTypeProtobuf)
			want, _, _ := decode(ordinary, nil, nil)
			got, _, err := decode(sent, nil, nil)
			if err != nil || !apiequality.Semantic.DeepEqual(got, want) {
				t.Errorf("%s as protobuf: %v\n%+v\nwant\n%+v", path, err, got, want)
			}
		}
	}
	for accept, want := range map[string]string{
		"application/json;as=Table;g=meta.k8s.io;v=v1,application/json":                                         `"kind":"Table"`,
		"application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1":                                      `"kind":"PartialObjectMetadataList"`,
		"application/vnd.kubernetes.protobuf;as=Table;g=meta.k8s.io;v=v1,application/json;as=None;g=x;v=v1,*/*": `"kind":"PodList"`,
		"application/yaml": "kind: PodList",
		"*/*":              `"kind":"PodList"`,
	} {
		if got := ask(t, c.RESTClient(), "/api/v1/pods", accept); !strings.Contains(string(got), want) {
			t.Errorf("%s gives %s", accept, got)
		}
	}
}

// atOneRevision asks for a list by the ordinary way (compacted here) and as it
// is sent, again when the server wrote something of its own in between: a list
// carries the revision at which it was read.
func atOneRevision(t *testing.T, c rest.Interface, path, accept string) (ordinary, sent []byte) {
	t.Helper()
	const pretty = "application/json;pretty=1"
	for deadline := time.Now().Add(2 * time.Minute); time.Now().Before(deadline); {
		before, sent := ask(t, c, path, pretty), ask(t, c, path, accept)
		if !bytes.Equal(withoutToken(before), withoutToken(ask(t, c, path, pretty))) {
			continue
		}
		var compact bytes.Buffer
		if err := json.Compact(&compact, before); err != nil {
			t.Fatal(err)
		}
		return compact.Bytes(), sent
	}
	t.Fatalf("%s is another list each time", path)
	return nil, nil
}

// withoutToken removes the continue token, which may be of a newer revision.
func withoutToken(list []byte) []byte {
	before, after, ok := bytes.Cut(list, []byte(`"continue":"`))
	if !ok {
		return list
	}
	_, after, _ = bytes.Cut(after, []byte(`"`))
	return append(bytes.Clone(before), after...)
}

func ask(t *testing.T, c rest.Interface, path, accept string) []byte {
	t.Helper()
	raw, err := c.Get().RequestURI(path).SetHeader("Accept", accept).Do(t.Context()).Raw()
	if err != nil {
		t.Fatalf("%s as %s: %v", path, accept, err)
	}
	return raw
}

// A large list is compressed for who asks, as upstream does: from 128 KiB on.
func TestSentListCompressed(t *testing.T) {
	s := start(t, t.TempDir())
	c := overTLS(t, s)
	cfg := must(kubeconfig(s))
	client := must(rest.HTTPClientFor(cfg))
	for _, step := range []struct {
		n    int
		want string
	}{{1, ""}, {40, "gzip"}} {
		n, want := step.n, step.want
		for i := range n {
			cm := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{GenerateName: "c-"}, Data: map[string]string{"k": strings.Repeat("x", 4000+i)}}
			must(c.CoreV1().ConfigMaps("default").Create(t.Context(), cm, metav1.CreateOptions{}))
		}
		for _, accept := range []string{runtime.ContentTypeJSON, runtime.ContentTypeProtobuf} {
			req := must(http.NewRequestWithContext(t.Context(), http.MethodGet, cfg.Host+"/api/v1/namespaces/default/configmaps", nil))
			req.Header.Set("Accept", accept)
			req.Header.Set("Accept-Encoding", "gzip")
			resp := must(client.Do(req))
			resp.Body.Close()
			if got := resp.Header.Get("Content-Encoding"); resp.StatusCode != http.StatusOK || got != want || resp.Header.Get("Content-Type") != accept {
				t.Errorf("%d objects as %s: %s, %v", n, accept, resp.Status, resp.Header)
			}
		}
	}
}
