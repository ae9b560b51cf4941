package api_test

import (
	"bytes"
	"encoding/base64"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/serializer/protobuf"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
)

// Printing some quantities takes k8s.io/apimachinery minutes and parsing others takes
// all memory: no way in lets a client have one.
func TestHostileQuantities(t *testing.T) {
	s := start(t, t.TempDir())
	client, err := rest.HTTPClientFor(must(kubeconfig(s)))
	if err != nil {
		t.Fatal(err)
	}
	const (
		huge  = "123456789012345678901e2147483647"
		js    = "application/json"
		yml   = "application/yaml"
		proto = "application/vnd.kubernetes.protobuf"
		merge = "application/merge-patch+json"
		smp   = "application/strategic-merge-patch+json"
		jp    = "application/json-patch+json"
		apply = "application/apply-patch+yaml"
		core  = "/api/v1/namespaces/default/"
		pods  = core + "pods"
		claim = core + "persistentvolumeclaims"
		old   = "/apis/autoscaling/v1/namespaces/default/horizontalpodautoscalers"
	)
	pod := func(name, more, cpu string) string {
		return `{"apiVersion":"v1","kind":"Pod","metadata":{"name":"` + name + `"` + more + `},"spec":{"containers":[{"name":"c","image":"i","resources":{"requests":{"cpu":` + cpu + `}}}]}}`
	}
	quoted := `"` + huge + `"`
	// In protobuf the text of another quantity of the same length is replaced.
	binary := func(name, annotation string, hostile bool) string {
		obj := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name, Annotations: map[string]string{"a": annotation}}, Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: "i",
			Resources: corev1.ResourceRequirements{Requests: corev1.ResourceList{"cpu": resource.MustParse("1234567891234")}}}}}}
		obj.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("Pod"))
		var out bytes.Buffer
		if err := protobuf.NewSerializer(scheme.Scheme, scheme.Scheme).Encode(obj, &out); err != nil {
			t.Fatal(err)
		}
		if !hostile {
			return out.String()
		}
		if !strings.Contains(out.String(), "1234567891234") {
			t.Fatal("the encoding holds no such text")
		}
		return strings.Replace(out.String(), "1234567891234", "12e2147483647", 1)
	}
	operation := func(value string) string {
		return `[{"op":"add","path":"/spec/containers/0/resources/requests","value":{"cpu":` + value + `}}]`
	}
	containers := func(value string) string {
		return `{"spec":{"containers":[{"name":"c","resources":{"requests":{"cpu":` + value + `}}}]}}`
	}
	hpa := func(annotation string) string {
		return `{"metadata":{"name":"hpa","annotations":{"autoscaling.alpha.kubernetes.io/behavior":` + fmt.Sprintf("%q", annotation) + `}},"spec":{"maxReplicas":2,"scaleTargetRef":{"apiVersion":"apps/v1","kind":"Deployment","name":"d"}}}`
	}
	escaped := strings.Replace(quoted, "e", `\u0065`, 1)
	// An annotation may hold the text, and so a JSON patch may copy it from there.
	for _, tt := range []struct {
		name, method, path, contentType, body string
		code                                  int
		want                                  string
	}{
		{"there", "POST", pods, js, pod("there", `,"annotations":{"a":`+quoted+`}`, `"1"`), 201, ""},
		{"map", "POST", core + "configmaps", js, `{"metadata":{"name":"m"},"data":{"a":"1e99999"}}`, 201, ""},
		{"map, YAML", "POST", core + "configmaps", yml, "metadata: {name: my}\ndata: {a: '1e99999'}", 201, ""},
		{"map, apply", "PATCH", core + "configmaps/m?fieldManager=m&force=1", apply, `{"apiVersion":"v1","kind":"ConfigMap","data":{"a":"1e99999"}}`, 200, ""},
		{"protobuf, annotation", "POST", pods, proto, binary("p", huge, false), 201, ""},

		{"JSON", "POST", pods, js, pod("x", "", quoted), 400, "Invalid value"},
		{"number", "POST", pods, js, pod("x", "", huge), 400, "Invalid value"},
		{"small", "POST", pods, js, pod("x", "", `"1e-2147483648"`), 400, "Invalid value"},
		{"digits", "POST", pods, js, pod("x", "", `"1`+strings.Repeat("0", 1<<20)+`"`), 400, "Invalid value"},
		{"dry run", "POST", pods + "?dryRun=All", js, pod("x", "", quoted), 400, "Invalid value"},
		{"no validation", "POST", pods + "?fieldValidation=Ignore", js, pod("x", "", quoted), 400, "Invalid value"},
		{"YAML", "POST", pods, yml, pod("x", "", quoted), 400, "Invalid value"},
		{"YAML, binary", "POST", pods, yml, pod("x", "", "!!binary "+base64.StdEncoding.EncodeToString([]byte(huge))), 400, "Invalid value"},
		{"protobuf", "POST", pods, proto, binary("x", "", true), 400, "Invalid value"},
		{"another kind", "POST", core + "configmaps", js, pod("x", "", quoted), 400, "Invalid value"},
		{"CBOR", "POST", pods, "application/cbor", "\xd9\xd9\xf7\xa0", 415, ""},

		{"update", "PUT", pods + "/there", js, pod("there", "", quoted), 400, "Invalid value"},
		{"update, protobuf", "PUT", pods + "/there", proto, binary("there", "", true), 400, "Invalid value"},
		{"status", "PUT", pods + "/there/status", js, `{"metadata":{"name":"there"},"status":{"containerStatuses":[{"name":"c","allocatedResources":{"cpu":` + quoted + `}}]}}`, 400, "Invalid value"},
		{"resize", "PUT", pods + "/there/resize", js, pod("there", "", quoted), 400, "Invalid value"},
		{"resize, patch", "PATCH", pods + "/there/resize", smp, containers(quoted), 400, "Invalid value"},
		{"status, patch", "PATCH", "/api/v1/nodes/n/status", smp, `{"status":{"capacity":{"cpu":` + quoted + `}}}`, 400, "Invalid value"},

		{"JSON patch", "PATCH", pods + "/there", jp, operation(quoted), 422, "a quantity may have"},
		{"JSON patch, escape", "PATCH", pods + "/there", jp, operation(escaped), 422, ""},
		{"JSON patch, copy", "PATCH", pods + "/there", jp, `[{"op":"copy","from":"/metadata/annotations/a","path":"/spec/containers/0/resources/requests/cpu"}]`, 422, "a quantity may have"},
		{"merge patch", "PATCH", pods + "/there", merge, containers(quoted), 0, "a quantity may have"},
		{"strategic", "PATCH", pods + "/there", smp, containers(quoted), 400, "Invalid value"},
		{"strategic, escape", "PATCH", pods + "/there", smp, containers(escaped), 400, "Invalid value"},
		{"strategic, space", "PATCH", pods + "/there", smp, containers(`"\n` + huge + `"`), 400, "Invalid value"},
		{"strategic, parameters", "PATCH", pods + "/there", smp + "; a=1; a=2", containers(quoted), 400, "Invalid value"},
		{"apply", "PATCH", pods + "/there?fieldManager=m&force=1", apply, pod("there", "", quoted), 400, "Invalid value"},
		{"apply, new", "PATCH", pods + "/new?fieldManager=m", apply, pod("new", "", escaped), 400, "Invalid value"},
		{"apply, binary", "PATCH", pods + "/new?fieldManager=m", apply + ";a=1;a=2", pod("new", "", "!!binary "+base64.StdEncoding.EncodeToString([]byte(huge))), 400, "Invalid value"},
		{"apply, CBOR", "PATCH", pods + "/new?fieldManager=m", "application/apply-patch+cbor", "\xd9\xd9\xf7\xa0", 415, ""},

		{"claim", "POST", claim, js, `{"metadata":{"name":"c"},"spec":{"accessModes":["ReadWriteOnce"],"resources":{"requests":{"storage":` + quoted + `}}}}`, 400, "Invalid value"},
		{"quota", "POST", core + "resourcequotas", js, `{"metadata":{"name":"q"},"spec":{"hard":{"cpu":` + quoted + `}}}`, 400, "Invalid value"},
		{"template", "POST", "/apis/apps/v1/namespaces/default/deployments", js, `{"metadata":{"name":"d"},"spec":{"template":` + pod("x", "", quoted) + `}}`, 400, "Invalid value"},
		// An annotation of autoscaling/v1 that cannot be read is left out.
		{"annotation of v1", "POST", old, js, hpa(`{"ScaleUp":{"Tolerance":"` + huge + `"}}`), 201, ""},
		{"annotation of v1, letters", "PUT", old + "/hpa", js, hpa(`{"scaleup":{"TOLERANCE":"` + huge + `"}}`), 200, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			code, body := send(t, client, tt.method, s.URL()+tt.path, tt.contentType, tt.body)
			if tt.code != 0 && code != tt.code || tt.code == 0 && (code < 400 || code > 499) || !strings.Contains(body, tt.want) {
				t.Errorf("status %d, want %d with %q: %.400s", code, tt.code, tt.want, body)
			}
		})
	}
}

func send(t *testing.T, client *http.Client, method, url, contentType, body string) (int, string) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Content-Type", contentType)
	resp, err := client.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	answer, err := io.ReadAll(io.LimitReader(resp.Body, 1<<20))
	if err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, string(answer)
}
