package reconcile

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
)

// state is what the objects of a script are, a line for each part of an object:
// "Deployment web status" → JSON.
type state map[string]string

var (
	instant    = regexp.MustCompile(`[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}(\.[0-9]+)?(Z|[+-][0-9]{2}:[0-9]{2})`)
	version    = regexp.MustCompile(`"resourceVersion":"[0-9]+"`)
	identifier = regexp.MustCompile(`[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}`)
	// How often something was tried or looked at is not promised, nor how often a stateful
	// set's pod was deleted before the cache had it.
	uncounted = regexp.MustCompile(` Warning | SuccessfulDelete by statefulset-controller:| Normal (WaitForFirstConsumer|FailedBinding|ExternalProvisioning|NoPods) `)
	// Nor is which of the failures that were told as one came last.
	combined = regexp.MustCompile(`( Warning .*: \(combined from similar events\)): .*`)
	// A pod that was refused had a name already.
	refused = regexp.MustCompile(`-[bcdfghjklmnpqrstvwxz2456789]{5}(\\?" is forbidden)`)
	stale   = regexp.MustCompile(`the object has been modified; please apply your changes`)
)

// render is the state now.
func (s *scene) render() state {
	s.mu.Lock()
	defer s.mu.Unlock()
	out, events := state{}, map[string]int64{}
	for _, o := range s.objects {
		if o.GetKind() == "Event" {
			s.renderEvent(events, o)
			continue
		}
		name := s.names.in(o.GetName())
		if ns := o.GetNamespace(); ns != "" && ns != s.name {
			name = ns + "/" + name
		}
		for section, value := range s.sections(o) {
			out[o.GetKind()+" "+name+" "+section] = s.anonymous(compact(value))
		}
	}
	for key, count := range events {
		out[key] = strconv.FormatInt(count, 10)
		if uncounted.MatchString(key) {
			out[key] = "some"
		}
	}
	return out
}

// renderEvent counts an event by what it says.
func (s *scene) renderEvent(into map[string]int64, o *unstructured.Unstructured) {
	text := func(fields ...string) string {
		v, _, _ := unstructured.NestedString(o.Object, fields...)
		return v
	}
	if stale.MatchString(text("message")) {
		return // who writes first is not promised
	}
	if text("reason") == "JobAlreadyActive" {
		return // each minute, and how many minutes a step takes is not promised
	}
	count, _, _ := unstructured.NestedInt64(o.Object, "count")
	if n, ok, _ := unstructured.NestedInt64(o.Object, "series", "count"); ok {
		count = n
	}
	key := fmt.Sprintf("Event %s %s %s %s by %s: %s", text("involvedObject", "kind"), text("involvedObject", "name"), text("type"), text("reason"),
		cmp.Or(text("reportingComponent"), text("source", "component")), text("message"))
	into[combined.ReplaceAllString(s.anonymous(key), "$1")] += max(count, 1)
}

// anonymous is a text without what is random in it.
func (s *scene) anonymous(text string) string {
	text = identifier.ReplaceAllString(instant.ReplaceAllString(text, "TIME"), "UID")
	text = version.ReplaceAllString(text, `"resourceVersion":"VERSION"`)
	return refused.ReplaceAllString(s.names.in(text), "-(?)$1")
}

// sections are the parts of an object without what differs between two runs.
func (s *scene) sections(o *unstructured.Unstructured) map[string]any {
	object := runtime.DeepCopyJSON(o.Object)
	meta := object["metadata"].(map[string]any)
	for _, field := range []string{"name", "namespace", "uid", "resourceVersion", "creationTimestamp", "managedFields", "selfLink"} {
		delete(meta, field)
	}
	owners, _ := meta["ownerReferences"].([]any)
	for _, one := range owners {
		owner := one.(map[string]any)
		owner["uid"] = s.whose(owner["uid"], owner["kind"])
	}
	delete(object, "kind")
	delete(object, "apiVersion")
	if o.GetKind() == "ConfigMap" && o.GetName() == "kube-root-ca.crt" {
		data, _ := object["data"].(map[string]any)
		object["data"] = slices.Sorted(maps.Keys(data))
	}
	trim(object)
	if o.GetKind() == "EndpointSlice" {
		delete(meta, "generation") // in how many writes is not promised
		sortByJSON(object["endpoints"])
		sortByJSON(object["ports"])
	}
	if subsets, ok := object["subsets"].([]any); ok { // upstream sorts by hashes of its types
		for _, one := range subsets {
			sortByJSON(one.(map[string]any)["ports"])
		}
		sortByJSON(subsets)
	}
	status, _ := object["status"].(map[string]any)
	if list, ok := status["conditions"].([]any); ok { // a map, by type
		slices.SortStableFunc(list, func(a, b any) int {
			return strings.Compare(fmt.Sprint(a.(map[string]any)["type"]), fmt.Sprint(b.(map[string]any)["type"]))
		})
	}
	if len(status) == 0 {
		delete(object, "status")
	}
	return object
}

// whose says whether an owner is the object of the script that has this UID.
func (s *scene) whose(uid, kind any) string {
	for _, o := range s.objects {
		if string(o.GetUID()) == uid {
			if o.GetKind() == kind {
				return "right"
			}
			return "of a " + o.GetKind()
		}
	}
	return "gone"
}

// plain are defaults of the API server, which other tests compare.
var plain = map[string]any{
	"terminationGracePeriodSeconds": int64(30), "dnsPolicy": "ClusterFirst", "restartPolicy": "Always", "schedulerName": "default-scheduler",
	"securityContext": map[string]any{}, "enableServiceLinks": true, "preemptionPolicy": "PreemptLowerPriority", "priority": int64(0),
	"serviceAccountName": "default", "serviceAccount": "default", "terminationMessagePath": "/dev/termination-log", "terminationMessagePolicy": "File",
	"imagePullPolicy": "IfNotPresent", "resources": map[string]any{}, "internalTrafficPolicy": "Cluster", "sessionAffinity": "None",
}

// trim takes plain defaults and the token volume out of all that lies in a value.
func trim(v any) {
	switch v := v.(type) {
	case map[string]any:
		for field, value := range v {
			if one, ok := plain[field]; ok && reflect.DeepEqual(one, value) {
				delete(v, field)
				continue
			}
			if list, ok := value.([]any); ok {
				list = slices.DeleteFunc(list, isPlain)
				if v[field] = list; len(list) == 0 {
					delete(v, field)
					continue
				}
			}
			trim(value)
		}
	case []any:
		for _, one := range v {
			trim(one)
		}
	}
}

// isPlain says whether a list's entry is one that admission adds to every pod.
func isPlain(v any) bool {
	m, _ := v.(map[string]any)
	name, _ := m["name"].(string)
	key, _ := m["key"].(string)
	return strings.HasPrefix(name, "kube-api-access-") ||
		(key == "node.kubernetes.io/not-ready" || key == "node.kubernetes.io/unreachable") && m["tolerationSeconds"] == int64(300)
}

func sortByJSON(v any) {
	list, _ := v.([]any)
	slices.SortFunc(list, func(a, b any) int { return strings.Compare(compact(a), compact(b)) })
}

// compact is a value as JSON in one line, with the keys in order.
func compact(v any) string {
	var out bytes.Buffer
	enc := json.NewEncoder(&out)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		return err.Error()
	}
	return strings.TrimSuffix(out.String(), "\n")
}

func TestRender(t *testing.T) {
	s := &scene{name: "x", names: newNames(), objects: map[string]*unstructured.Unstructured{}}
	for _, text := range []string{
		`{"kind":"ReplicaSet","metadata":{"name":"web-abc12","namespace":"x","uid":"1","labels":{"pod-template-hash":"abc12"}}}`,
		`{"kind":"Pod","metadata":{"name":"web-abc12-zzzzz","generateName":"web-abc12-","namespace":"x","creationTimestamp":"2026-01-01T00:00:00Z",
		  "ownerReferences":[{"kind":"ReplicaSet","name":"web-abc12","uid":"1","controller":true}]},
		  "spec":{"dnsPolicy":"ClusterFirst","priority":5,"tolerations":[{"key":"node.kubernetes.io/not-ready","tolerationSeconds":300}],"volumes":[{"name":"kube-api-access-zzzzz"},{"name":"own"}]},
		  "status":{"conditions":[{"type":"Ready","lastTransitionTime":"2026-01-01T00:00:00Z"},{"type":"Initialized"}]}}`,
		`{"kind":"Event","metadata":{"name":"a","namespace":"x"},"count":2,"type":"Normal","reason":"SuccessfulCreate","message":"Created pod: web-abc12-zzzzz","involvedObject":{"kind":"ReplicaSet","name":"web-abc12"},"source":{"component":"replicaset-controller"}}`,
		`{"kind":"Event","metadata":{"name":"b","namespace":"x"},"type":"Warning","reason":"Sad","message":"m","involvedObject":{"kind":"ReplicaSet","name":"web-abc12"},"reportingComponent":"c"}`,
		`{"kind":"Event","metadata":{"name":"c","namespace":"x"},"type":"Warning","reason":"Sad","message":"(combined from similar events): m: n","involvedObject":{"kind":"ReplicaSet","name":"web-abc12"},"reportingComponent":"c"}`,
		`{"kind":"Event","metadata":{"name":"d","namespace":"x"},"count":2,"type":"Normal","reason":"Glad","message":"(combined from similar events): m","involvedObject":{"kind":"ReplicaSet","name":"web-abc12"},"reportingComponent":"c"}`,
	} {
		o := &unstructured.Unstructured{}
		if err := o.UnmarshalJSON([]byte(strings.Replace(text, `"kind"`, `"apiVersion":"v1","kind"`, 1))); err != nil {
			t.Fatal(err)
		}
		s.take(o, false)
	}
	got := s.render()
	for key, want := range map[string]string{
		"Pod web-(h1)-(1) metadata": `{"generateName":"web-(h1)-","ownerReferences":[{"controller":true,"kind":"ReplicaSet","name":"web-(h1)","uid":"right"}]}`,
		"Pod web-(h1)-(1) spec":     `{"priority":5,"volumes":[{"name":"own"}]}`,
		"Pod web-(h1)-(1) status":   `{"conditions":[{"type":"Initialized"},{"lastTransitionTime":"TIME","type":"Ready"}]}`,
		"Event ReplicaSet web-(h1) Normal SuccessfulCreate by replicaset-controller: Created pod: web-(h1)-(1)": "2",
		"Event ReplicaSet web-(h1) Warning Sad by c: m":                                                         "some",
		"Event ReplicaSet web-(h1) Warning Sad by c: (combined from similar events)":                            "some",
		"Event ReplicaSet web-(h1) Normal Glad by c: (combined from similar events): m":                         "2",
	} {
		if got[key] != want {
			t.Errorf("%s:\n have %s\n want %s", key, got[key], want)
		}
	}
}
