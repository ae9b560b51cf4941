package quantities

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes/scheme"
)

func TestCheck(t *testing.T) {
	for text, refused := range map[string]bool{
		"1": false, "100m": false, "1.5Gi": false, "12e6": false, "-1E-9": false, "1e99": false, "1e00000003": false, "": false,
		"a1e99999": false, "e99999": true, "1e": false, "1Ei": false, "1e+": false, "1ee99999": false, "1e99999x": false,
		strings.Repeat("9", 64): false, "0." + strings.Repeat("0", 63): false,
		"1e100": true, "1e99999": true, " +1E+100\n": true, "1.e-100": true, ".1e0000100": true, "1\u2003": false, "1e100\u2003": true,
		"1e99999999999999999999999": true, "1e4294967297": true,
		strings.Repeat("9", 65): true, "0." + strings.Repeat("0", 64): true, strings.Repeat("0", 999) + "1": true, "1" + strings.Repeat("0", 99) + "Ki": true,
	} {
		if err := check(text); (err != nil) != refused {
			t.Errorf("%.80q: %v", text, err)
		}
		// The scan finds in a document what the check refuses.
		if refused && text != "e99999" {
			for _, document := range []string{`{"cpu":"` + strings.TrimSpace(text) + `"}`, `{"cpu":"\n` + strings.TrimSpace(text) + `\n"}`, `{"cpu":` + text + `}`, `x` + text} {
				if protobuf := document[0] == 'x'; !suspicious([]byte(document), protobuf) {
					t.Errorf("the scan passes %.80q", document)
				}
			}
		}
	}
}

// A client writes a text as its format lets it: each of these is 1e99999.
func TestWaysToWriteIt(t *testing.T) {
	const list = `{"spec":{"containers":[{},{"resources":{"requests":{"memory":%}}}]}}`
	for _, tt := range []struct {
		name, body string
		yaml, ok   bool
	}{
		{name: "text", body: strings.Replace(list, "%", `"1e99999"`, 1)},
		{name: "number", body: strings.Replace(list, "%", `1e99999`, 1)},
		{name: "an escape", body: strings.Replace(list, "%", `"1\u006599999"`, 1)},
		{name: "an escape before", body: strings.Replace(list, "%", `"\n1e99999"`, 1)},
		{name: "a member twice", body: strings.Replace(list, "%", `"1e99999","memory":"1"`, 1)},
		{name: "a member in capitals", body: strings.Replace(strings.Replace(list, "requests", "REQUESTS", 1), "%", `"1e99999"`, 1)},
		{name: "an escape in a member", body: strings.Replace(strings.Replace(list, "requests", `r\u0065quests`, 1), "%", `"1e99999"`, 1)},
		{name: "inline", body: `{"spec":{"volumes":[{"emptyDir":{"sizeLimit":"1e99999"}}]}}`},
		{name: "divisor", body: `{"spec":{"initContainers":[{"env":[{"valueFrom":{"resourceFieldRef":{"divisor":"1e99999"}}}]}]}}`},
		{name: "YAML", body: "spec: {overhead: {cpu: 1e99999}}", yaml: true},
		{name: "YAML in JSON", body: strings.Replace(list, "%", `"1e99999"`, 1), yaml: true},
		{name: "YAML, escape", body: `spec: {overhead: {cpu: "1\x6599999"}}`, yaml: true},
		{name: "YAML, folded", body: "spec: {overhead: {cpu: \"1e99\\\n  999\"}}", yaml: true},
		{name: "YAML, anchor", body: "metadata: {name: &a '1e99999'}\nspec: {overhead: {cpu: *a}}", yaml: true},
		{name: "YAML, merged", body: "x: &a {cpu: '1e99999'}\nspec: {overhead: {<<: *a}}", yaml: true},
		{name: "YAML, binary", body: "spec: {overhead: {cpu: !!binary MWU5OTk5OQ==}}", yaml: true},
		{name: "YAML, UTF-16", body: "\xff\xfe" + strings.Join(strings.Split("spec: {overhead: {cpu: '1e99999'}}", ""), "\x00") + "\x00", yaml: true},

		{name: "ordinary", body: strings.Replace(list, "%", `"1e9"`, 1), ok: true},
		{name: "annotation", body: `{"metadata":{"annotations":{"a":"1e99999","b":1e99999}}}`, ok: true},
		{name: "digest", body: `{"spec":{"containers":[{"image":"a@sha256:12e45678"}]}}`, ok: true},
		{name: "another type", body: `{"spec":{"containers":{"resources":{"requests":{"memory":"1e99999"}}}}}`, ok: true},
		{name: "not JSON", body: `{"spec":{"overhead":{"cpu":"1e99999"}}`, ok: true},
		{name: "null", body: `{"metadata":{"name":"1e99999"},"spec":{"overhead":{"cpu":null}}}`, ok: true},
	} {
		err := CheckJSON([]byte(tt.body), &corev1.Pod{})
		if tt.yaml {
			mediaType := Decoder{Scheme: scheme.Scheme, MediaType: runtime.ContentTypeYAML}
			err = mediaType.check([]byte(tt.body), nil, &corev1.Pod{})
		}
		if (err == nil) != tt.ok {
			t.Errorf("%s: %v", tt.name, err)
		}
	}
	err := CheckJSON([]byte(strings.Replace(list, "%", `"1e99999"`, 1)), &corev1.Pod{})
	if want := `spec.containers[1].resources.requests[memory]: Invalid value: "1e99999": a quantity may have at most 64 digits and an exponent from -99 to 99`; err == nil || err.Error() != want {
		t.Errorf("%v, want %s", err, want)
	}
}

// The kind is the one that the decoder takes.
func TestKinds(t *testing.T) {
	const body = `"spec":{"overhead":{"cpu":"1e99999"}}}`
	pods := corev1.SchemeGroupVersion.WithKind("Pod")
	maps := corev1.SchemeGroupVersion.WithKind("ConfigMap")
	d := Decoder{Scheme: scheme.Scheme, MediaType: runtime.ContentTypeJSON}
	for _, tt := range []struct {
		body     string
		defaults *schema.GroupVersionKind
		refused  bool
	}{
		{`{` + body, &pods, true}, {`{` + body, &maps, false}, {`{"kind":"Pod",` + body, &maps, true},
		{`{"apiVersion":"v1","kind":"Pod",` + body, &maps, true}, {`{"apiVersion":"v1","kind":"ConfigMap","KIND":"Pod",` + body, nil, true},
	} {
		if err := d.check([]byte(tt.body), tt.defaults, nil); (err != nil) != tt.refused {
			t.Errorf("%s: %v", tt.body, err)
		}
	}
}
