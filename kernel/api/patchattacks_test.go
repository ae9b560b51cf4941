package api_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
)

// repeated joins what f gives for 0 to n-1 by commas.
func repeated(n int, f func(i int) string) string {
	parts := make([]string, n)
	for i := range parts {
		parts[i] = f(i)
	}
	return strings.Join(parts, ",")
}

// TestHostilePatches: patches at and past each bound are applied or refused by a clear
// word, and the server goes on. Codes are kube-apiserver's, also the 500 of strategic
// merge patches that it does not understand.
func TestHostilePatches(t *testing.T) {
	s := start(t, t.TempDir())
	ask, client := asker(t, s), overTLS(t, s)
	cm := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "there"}, Data: map[string]string{"a": "1", "big": strings.Repeat("x", 900_000)}}
	if _, err := client.CoreV1().ConfigMaps("default").Create(t.Context(), cm, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "pod"}, Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: "i"}}}}
	if _, err := client.CoreV1().Pods("default").Create(t.Context(), pod, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	const (
		js        = "application/json-patch+json"
		merge     = "application/merge-patch+json"
		strategic = "application/strategic-merge-patch+json"
		apply     = "application/apply-patch+yaml"
		there     = "/api/v1/namespaces/default/configmaps/there"
		onPod     = "/api/v1/namespaces/default/pods/pod"
		applied   = "/api/v1/namespaces/default/configmaps/x?fieldManager=m"
		head      = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: x}\n"
		invalid   = "the server rejected our request due to an error in our request"
		untyped   = "failed to create typed patch object"
	)
	add := func(int) string { return `{"op":"add","path":"/data/a","value":"x"}` }
	named := func(i int) string { return fmt.Sprintf(`{"name":"c%d"}`, i) }
	for name, tt := range map[string]struct {
		path, contentType, body string
		code                    int
		want                    string
	}{
		"10,000 operations":       {there, js, "[" + repeated(10_000, add) + "]", 200, `"there"`},
		"10,001 operations":       {there, js, "[" + repeated(10_001, add) + "]", 413, "maximum operations in a JSON patch is 10000, got 10001"},
		"copies of much":          {there, js, "[" + repeated(100, func(i int) string { return fmt.Sprintf(`{"op":"copy","from":"/data/big","path":"/data/b%d"}`, i) }) + "]", 422, invalid},
		"copies of copies":        {there, js, "[" + repeated(60, func(i int) string { return fmt.Sprintf(`{"op":"copy","from":"/metadata","path":"/metadata/x%d"}`, i) }) + "]", 422, invalid},
		"tests of much":           {there, js, "[" + repeated(9_999, func(int) string { return `{"op":"test","path":"/data/big","value":"x"}` }) + "]", 422, invalid},
		"a long pointer":          {there, js, `[{"op":"add","path":"` + strings.Repeat("/a", 1_000_000) + `","value":1}]`, 413, "points too deep"},
		"a pointer at the bound":  {there, js, `[{"op":"add","path":"` + strings.Repeat("/a", 256) + `","value":1}]`, 422, invalid},
		"an index past all":       {onPod, js, `[{"op":"add","path":"/spec/containers/999999999","value":{}}]`, 422, invalid},
		"an index of many digits": {onPod, js, `[{"op":"add","path":"/spec/containers/99999999999999999999","value":{}}]`, 422, invalid},
		"an index before all":     {onPod, js, `[{"op":"remove","path":"/spec/containers/-5"}]`, 422, invalid},
		"no operation":            {there, js, `[null]`, 422, invalid},
		"the whole goes":          {there, js, `[{"op":"remove","path":""}]`, 422, invalid},
		"10,000 faults":           {onPod, js, "[" + repeated(10_000, func(int) string { return `{"op":"add","path":"/spec/containers/0","value":{}}` }) + "]", 422, "more faults from here on; the first 1000 are named"},

		"nothing":               {there, merge, "null", 400, "Invalid JSON Patch"},
		"a list":                {there, merge, "[1]", 400, "error decoding patch"},
		"256 levels":            {there, merge, strings.Repeat(`{"a":`, 256) + "1" + strings.Repeat("}", 256), 200, `"there"`},
		"4,000 levels":          {there, merge, strings.Repeat(`{"a":`, 4_000) + "1" + strings.Repeat("}", 4_000), 413, "nests too deep"},
		"9,000 levels":          {there, merge, strings.Repeat(`{"a":`, 9_000) + "1" + strings.Repeat("}", 9_000), 413, "nests too deep"},
		"9,000 levels in JSON":  {there, js, `[{"op":"add","path":"/data/a","value":` + strings.Repeat(`{"a":`, 9_000) + "1" + strings.Repeat("}", 9_000) + "}]", 413, "nests too deep"},
		"a name that is a bool": {there, merge, `{"metadata":{"name":true}}`, 422, "is invalid"},

		"strategic, 9,000 levels":        {there, strategic, strings.Repeat(`{"data":`, 9_000) + "1" + strings.Repeat("}", 9_000), 422, "is invalid"},
		"strategic, 1,000 items":         {onPod, strategic, `{"spec":{"containers":[` + repeated(1_000, named) + "]}}", 422, "more faults from here on"},
		"strategic, too many items":      {onPod, strategic, `{"spec":{"containers":[` + repeated(5_001, named) + "]}}", 413, "the strategic merge patch has too long lists"},
		"strategic, too many lists":      {onPod, strategic, `{"spec":{"containers":[` + repeated(30, func(int) string { return `{"name":"c","env":[` + repeated(1_000, named) + "]}" }) + "]}}", 413, "the strategic merge patch has too long lists"},
		"strategic, an unknown word":     {there, strategic, `{"$patch":"explode"}`, 500, "unknown patch type: explode"},
		"strategic, all goes":            {there, strategic, `{"$patch":"delete"}`, 400, "name must be provided"},
		"strategic, nothing is kept":     {there, strategic, `{"$retainKeys":{"a":1}}`, 400, "invalid patch format of retainKeys"},
		"strategic, an order of numbers": {onPod, strategic, `{"spec":{"$setElementOrder/containers":7}}`, 500, "expected a []interface {}"},
		"strategic, an order of others":  {onPod, strategic, `{"spec":{"$setElementOrder/containers":[{"name":"x"}],"containers":[{"name":"c"}]}}`, 500, "doesn't match $setElementOrder list"},
		"strategic, without a key":       {onPod, strategic, `{"spec":{"containers":[{"image":"x"}]}}`, 500, "does not contain declared merge key: name"},
		"strategic, items of two sorts":  {onPod, strategic, `{"spec":{"containers":[{"name":"c"},"x",7]}}`, 500, "list element types are not identical"},

		"apply, a name that is a bool":   {strings.Replace(applied, "/x?", "/y?", 1), apply, strings.Replace(head, "x", "y", 1), 400, untyped + " (/; /v1, Kind=ConfigMap): .metadata.name: expected string"},
		"apply, a name that is a number": {strings.Replace(applied, "/x?", "/7?", 1), apply, strings.Replace(head, "x", "7", 1), 400, untyped},
		"apply, a quoted name":           {strings.Replace(applied, "/x?", "/y?", 1), apply, strings.Replace(head, "x", `"y"`, 1), 201, `"y"`},
		"apply, metadata that is a text": {applied, apply, "apiVersion: v1\nkind: ConfigMap\nmetadata: x\n", 400, untyped},
		"apply, a field of no kind":      {applied, apply, head + "nope: 1\n", 400, ".nope: field not declared in schema"},
		"apply, a value that is a bool":  {applied, apply, head + "data: {a: y}\n", 400, ".data.a: expected string"},
		"apply, one key twice":           {onPod + "?fieldManager=m", apply, "apiVersion: v1\nkind: Pod\nmetadata: {name: pod}\nspec: {containers: [{name: c, image: i}, {name: c, image: j}]}\n", 400, "duplicate entries for key"},
		// As kube-apiserver: the first document is the patch.
		"apply, two documents": {applied, apply, head + "data: {a: first}\n---\n" + head + "data: {a: second}\n", 201, `"first"`},
	} {
		t.Run(name, func(t *testing.T) {
			res, body := ask(http.MethodPatch, tt.path, tt.body, "Content-Type", tt.contentType)
			if res.StatusCode != tt.code || !strings.Contains(plain(body), tt.want) {
				t.Errorf("%s: %.400s; want %d with %q", res.Status, body, tt.code, tt.want)
			}
		})
	}
	t.Run("a fault within the merge", func(t *testing.T) {
		// The library compares what cannot be compared, and the request ends early.
		web := must(rest.HTTPClientFor(must(kubeconfig(s))))
		req := must(http.NewRequestWithContext(t.Context(), http.MethodPatch, s.URL()+onPod, strings.NewReader(`{"spec":{"containers":[{"name":{}},{"name":{}}]}}`)))
		req.Header.Set("Content-Type", strategic)
		if res, err := web.Do(req); err == nil {
			res.Body.Close()
			if res.StatusCode < 400 {
				t.Errorf("it was taken: %s", res.Status)
			}
		}
	})
	if got, err := client.CoreV1().Pods("default").Get(t.Context(), "pod", metav1.GetOptions{}); err != nil || len(got.Spec.Containers) != 1 {
		t.Errorf("the pod after them: %v, %v", got, err)
	}
	if res, _ := ask(http.MethodPatch, there, `{"data":{"a":"good"}}`, "Content-Type", merge); res.StatusCode != http.StatusOK {
		t.Errorf("a good patch after them: %s", res.Status)
	}
}

// plain is the message of a Status, or the body of another object.
func plain(body []byte) string {
	var status metav1.Status
	if json.Unmarshal(body, &status) == nil && status.Kind == "Status" {
		return status.Message
	}
	return string(body)
}

// TestHostileSelectors: selectors as long as a request may be are answered.
func TestHostileSelectors(t *testing.T) {
	s := start(t, t.TempDir())
	ask := asker(t, s)
	labeled := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "labeled", Labels: map[string]string{"a": "b"}}}
	if _, err := overTLS(t, s).CoreV1().ConfigMaps("default").Create(t.Context(), labeled, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	many := func(n int, part string) string { return strings.TrimSuffix(strings.Repeat(part+",", n), ",") }
	for name, tt := range map[string]struct {
		query string
		code  int
		found bool
	}{
		"200,000 values":       {"labelSelector=a+in+(" + many(200_000, "b") + ")", 200, true},
		"200,000 other values": {"labelSelector=a+in+(" + many(200_000, "xx") + ")", 200, false},
		"100,000 terms":        {"labelSelector=" + many(100_000, "a!%3Dx"), 200, true},
		"empty values":         {"labelSelector=a+in+(" + strings.Repeat(",", 300_000) + ")", 200, false},
		"open brackets":        {"labelSelector=" + strings.Repeat("(", 100_000), 400, false},
		"40,000 fields":        {"fieldSelector=" + many(40_000, "metadata.name!%3Dx"), 200, true},
		"a long name":          {"fieldSelector=metadata.name%3D" + strings.Repeat("x", 900_000), 200, false},
		"backslashes":          {"fieldSelector=" + strings.Repeat(`\\`, 100_000), 400, false},
		"a field of no object": {"fieldSelector=" + many(10_000, "data.a%3Db"), 400, false},
	} {
		t.Run(name, func(t *testing.T) {
			res, body := ask(http.MethodGet, "/api/v1/namespaces/default/configmaps?"+tt.query, "")
			if res.StatusCode != tt.code || strings.Contains(string(body), `"labeled"`) != tt.found {
				t.Errorf("%s: %.300s", res.Status, body)
			}
		})
	}
	t.Run("longer than a request", func(t *testing.T) {
		web := must(rest.HTTPClientFor(must(kubeconfig(s))))
		res, err := web.Get(s.URL() + "/api/v1/pods?labelSelector=a+in+(" + many(500_000, "xx") + ")")
		if err == nil {
			res.Body.Close()
			if res.StatusCode < 400 {
				t.Error(res.Status)
			}
		}
		if res, _ := ask(http.MethodGet, "/api/v1/namespaces/default/configmaps?labelSelector=a%3Db", ""); res.StatusCode != http.StatusOK {
			t.Errorf("after it: %s", res.Status)
		}
	})
}
