package api_test

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"pintle.dev/pintle/kernel/api"
)

const (
	smp = string(types.StrategicMergePatchType)
	// firstStatus is what an agent writes of a pod that runs, and lastStatus of one that ended.
	firstStatus = `{"metadata":{"uid":"$UID"},"status":{"$setElementOrder/conditions":[{"type":"PodReadyToStartContainers"},{"type":"Initialized"},{"type":"Ready"},{"type":"ContainersReady"},{"type":"PodScheduled"}],` +
		`"conditions":[{"lastProbeTime":null,"lastTransitionTime":"2026-01-02T03:04:05Z","observedGeneration":1,"status":"True","type":"PodReadyToStartContainers"},` +
		`{"lastProbeTime":null,"lastTransitionTime":"2026-01-02T03:04:05Z","status":"True","type":"Initialized"},` +
		`{"lastProbeTime":null,"lastTransitionTime":"2026-01-02T03:04:06Z","status":"True","type":"Ready"},` +
		`{"lastProbeTime":null,"lastTransitionTime":"2026-01-02T03:04:06Z","status":"True","type":"ContainersReady"},{"observedGeneration":1,"type":"PodScheduled"}],` +
		`"containerStatuses":[{"allocatedResources":{"cpu":"1000m"},"containerID":"hollow://1","image":"i","imageID":"i@sha256:0","lastState":{},"name":"main","ready":true,"resources":{"requests":{"cpu":"1000m"}},"restartCount":0,"started":true,"state":{"running":{"startedAt":"2026-01-02T03:04:06Z"}}}],` +
		`"hostIP":"192.0.2.1","hostIPs":[{"ip":"192.0.2.1"}],"observedGeneration":1,"phase":"Running","podIP":"10.0.0.1","podIPs":[{"ip":"10.0.0.1"}],"startTime":"2026-01-02T03:04:04Z"}}`
	lastStatus = `{"metadata":{"uid":"$UID"},"status":{"$setElementOrder/conditions":[{"type":"PodReadyToStartContainers"},{"type":"Initialized"},{"type":"Ready"},{"type":"ContainersReady"},{"type":"PodScheduled"}],` +
		`"conditions":[{"lastTransitionTime":"2026-01-02T03:05:06Z","reason":"PodCompleted","status":"False","type":"Ready"},{"lastTransitionTime":"2026-01-02T03:05:06Z","reason":"PodCompleted","status":"False","type":"ContainersReady"}],` +
		`"containerStatuses":[{"containerID":"hollow://1","image":"i","imageID":"i@sha256:0","lastState":{},"name":"main","ready":false,"restartCount":0,"started":false,"state":{"terminated":{"containerID":"hollow://1","exitCode":0,"finishedAt":"2026-01-02T03:05:06Z","reason":"Completed","startedAt":"2026-01-02T03:04:06Z"}}}],"phase":"Succeeded"}}`
)

// statusPatch is one patch of a sequence.
type statusPatch struct {
	body string
	// query, kind (of the patch) and agent are set where they are not the usual ones.
	query, kind, agent string
	who                user.Info
	// machinery: it is left to that.
	machinery bool
}

// answered is what a client sees of an answer.
type answered struct {
	code     int
	headers  [2]string
	warnings []string
	text     string
	pod      *corev1.Pod
}

// patchStatus sends a patch of pod p, the short way or the machinery's.
func patchStatus(t *testing.T, s *api.Server, p *corev1.Pod, way statusPatch, accept string, long bool) answered {
	t.Helper()
	if way.who == nil {
		way.who = admin
	}
	client, err := rest.HTTPClientFor(s.ClientConfig(way.who))
	if err != nil {
		t.Fatal(err)
	}
	query := way.query
	if long {
		query = strings.Trim(query+"&timeout=30s", "&")
	}
	url := "http://inprocess/api/v1/namespaces/default/pods/" + p.Name + "/status?" + query
	body := strings.ReplaceAll(way.body, "$UID", string(p.UID))
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPatch, url, bytes.NewReader([]byte(body)))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Content-Type", smp)
	if way.kind != "" {
		req.Header.Set("Content-Type", way.kind)
	}
	req.Header.Set("Accept", accept)
	req.Header.Set("User-Agent", "agent\x7f of/1.2")
	if way.agent != "" {
		req.Header.Set("User-Agent", way.agent)
	}
	resp, err := client.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	raw, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	out := answered{code: resp.StatusCode, headers: [2]string{resp.Header.Get("Content-Type"), resp.Header.Get("Cache-Control")}, warnings: resp.Header.Values("Warning")}
	if resp.StatusCode != http.StatusOK {
		out.text = strings.ReplaceAll(string(raw), string(p.UID), "UID")
		return out
	}
	if strings.Contains(accept, "as=Table") {
		return out // which has the pod's age
	}
	// Who patches gets what who reads gets.
	read, err := http.NewRequestWithContext(t.Context(), http.MethodGet, strings.Replace(strings.Split(url, "?")[0], "/status", "", 1), nil)
	if err != nil {
		t.Fatal(err)
	}
	read.Header.Set("Accept", accept)
	reader, err := rest.HTTPClientFor(s.ClientConfig(admin))
	if err != nil {
		t.Fatal(err)
	}
	again, err := reader.Do(read)
	if err != nil {
		t.Fatal(err)
	}
	defer again.Body.Close()
	if now, err := io.ReadAll(again.Body); err != nil || !bytes.Equal(now, raw) && !strings.Contains(query, "dryRun") {
		t.Errorf("answered:\n%q\nread:\n%q, %v", raw, now, err)
	}
	if accept == runtime.ContentTypeJSON {
		out.pod = &corev1.Pod{}
		if err := json.Unmarshal(raw, out.pod); err != nil {
			t.Fatal(err)
		}
		out.pod = nowOff(out.pod)
	}
	return out
}

// nowOff also takes off what depends on when a pod was bound or deleted.
func nowOff(p *corev1.Pod) *corev1.Pod {
	p = identityOff(p)
	p.DeletionTimestamp = nil
	for i := range p.Status.Conditions {
		if c := &p.Status.Conditions[i]; c.Type == corev1.PodScheduled {
			c.LastTransitionTime = metav1.Time{}
		}
	}
	// Entries are in the order of their seconds.
	slices.SortFunc(p.ManagedFields, func(a, b metav1.ManagedFieldsEntry) int {
		return cmp.Or(cmp.Compare(a.Manager, b.Manager), cmp.Compare(a.Operation, b.Operation), cmp.Compare(a.Subresource, b.Subresource))
	})
	return p
}

// statusSequences are patches of one pod, one after the other.
func statusSequences() map[string][]statusPatch {
	node, other := &user.DefaultInfo{Name: "system:node:n1", Groups: []string{user.NodesGroup, user.AllAuthenticated}}, &user.DefaultInfo{Name: "system:node:n2", Groups: []string{user.NodesGroup, user.AllAuthenticated}}
	first := statusPatch{body: firstStatus}
	left := func(bodies ...string) (list []statusPatch) {
		list = []statusPatch{first}
		for _, body := range bodies {
			list = append(list, statusPatch{body: body, machinery: true})
		}
		return list
	}
	var eleven, large []statusPatch
	for i := range 12 {
		eleven = append(eleven, statusPatch{body: fmt.Sprintf(`{"status":{"message":"m%d","conditions":[{"type":"example.com/C%d","status":"True"}]}}`, i, i), query: fmt.Sprintf("fieldManager=z%02d", i)})
	}
	large = []statusPatch{{body: fmt.Sprintf(`{"status":{"message":%q}}`, strings.Repeat("x", 300<<10))}, {body: fmt.Sprintf(`{"status":{"message":%q}}`, strings.Repeat("y", 100<<10))}}
	return map[string][]statusPatch{
		"an agent's":       {first, {body: lastStatus}},
		"a node's":         {{body: firstStatus, who: node}, {body: lastStatus, who: node}, {body: firstStatus, who: other, machinery: true}},
		"the same again":   {first, {body: firstStatus, machinery: true}},
		"by two":           {first, {body: `{"status":{"conditions":[{"type":"example.com/Gate","status":"True"}]}}`, query: "fieldManager=gate"}, {body: lastStatus}, {body: `{"status":{"conditions":[{"type":"Ready","status":"Unknown"}]}}`, query: "fieldManager=gate"}},
		"by twelve":        eleven,
		"large":            large,
		"of another pod":   left(`{"metadata":{"uid":"another"},"status":{"phase":"Failed"}}`, `{"metadata":{"uid":""},"status":{"phase":"Failed"}}`, `{"metadata":{"uid":7},"status":{"phase":"Failed"}}`),
		"with more":        left(`{"metadata":{"labels":{"a":"b"}},"status":{"phase":"Failed"}}`, `{"metadata":{"resourceVersion":"1"},"status":{"phase":"Failed"}}`, `{"spec":{"nodeName":"x"},"status":{"phase":"Failed"}}`, `{"kind":"Pod","status":{"phase":"Failed"}}`, `{"metadata":null,"status":{"message":"m"}}`),
		"odd":              left(`{}`, `{"status":null}`, `{"status":"Running"}`, `{"status":{}}`, `[]`, `null`, `{`, `{"status":{"phase":"Failed"}} {}`, `{"status":{"phase":7}}`, `{"status":{"conditions":{}}}`, `{"status":{"conditions":[{}]}}`, `{"status":{"startTime":"yesterday"}}`),
		"unknown fields":   left(`{"status":{"phase":"Failed","nothing":1}}`, `{"status":{"phase":"Failed","phase":"Failed"}}`, `{"status":{"conditions":[{"type":"A","status":"True","odd":1}]}}`),
		"strictly":         {{body: `{"status":{"phase":"Failed","nothing":1}}`, query: "fieldValidation=Strict", machinery: true}, {body: `{"status":{"phase":"Failed","nothing":1}}`, query: "fieldValidation=Ignore", machinery: true}, {body: lastStatus, query: "fieldValidation=Strict"}, {body: firstStatus, query: "fieldValidation=Odd", machinery: true}},
		"invalid":          left(`{"status":{"qosClass":"Guaranteed"}}`, `{"status":{"podIPs":[{"ip":"x"}]}}`, `{"status":{"conditions":[{"type":"not a name","status":"True"}]}}`, `{"status":{"nominatedNodeName":"n2"}}`, `{"status":{"observedGeneration":-1}}`),
		"warned of":        left(`{"status":{"podIP":"010.0.0.1","podIPs":[{"$patch":"replace"},{"ip":"010.0.0.1"}]}}`, `{"status":{"podIP":"::ffff:1.2.3.4","podIPs":[{"$patch":"replace"},{"ip":"::ffff:1.2.3.4"}]}}`),
		"replaced":         {first, {body: `{"status":{"$patch":"replace","phase":"Running","qosClass":"Burstable"}}`}, {body: `{"status":{"$patch":"delete"}}`}},
		"conditions":       {first, {body: `{"status":{"conditions":[{"$patch":"delete","type":"Ready"}]}}`}, {body: `{"status":{"conditions":[{"$patch":"replace"},{"type":"A","status":"True"}]}}`}, {body: `{"status":{"conditions":null}}`}},
		"empty and parts":  {{body: `{"status":{"podIPs":[],"conditions":[{"type":"A","status":"True","lastTransitionTime":"2026-01-02T03:04:05.678Z"}],"startTime":"2026-01-02T03:04:05.678+02:00","containerStatuses":[{"name":"main","image":"i","imageID":"","ready":false,"restartCount":0,"lastState":{},"state":{"terminated":{"exitCode":1,"startedAt":"2026-01-02T03:04:05.9Z","finishedAt":null}},"allocatedResources":{},"volumeMounts":[]}]}}`}, {body: firstStatus, machinery: true}},
		"addresses":        {{body: `{"status":{"podIP":"10.0.0.7"}}`}, {body: `{"status":{"podIP":"10.0.0.8"}}`}, {body: `{"status":{"podIPs":[{"ip":"10.0.0.9"}]}}`, machinery: true}, {body: `{"status":{"podIPs":[{"$patch":"replace"},{"ip":"10.0.0.9"}],"hostIP":"192.0.2.9"}}`}, {body: `{"status":{"podIP":"10.0.0.7"}}`}},
		"escaped":          {{body: "{\"status\":{\"message\":\"<a&b> \\u2028 \\ud800 \xff\"}}"}},
		"other kinds":      {first, {body: `{"status":{"message":"m"}}`, kind: string(types.MergePatchType), machinery: true}, {body: `[{"op":"add","path":"/status/message","value":"n"}]`, kind: string(types.JSONPatchType), machinery: true}, {body: `{"status":{"message":"m"}}`, kind: "application/odd", machinery: true}, {body: lastStatus, kind: smp + "; charset=utf-8", machinery: true}},
		"after an apply":   {{body: `{"apiVersion":"v1","kind":"Pod","status":{"message":"applied","conditions":[{"type":"A","status":"True"}]}}`, kind: string(types.ApplyYAMLPatchType), query: "fieldManager=applier", machinery: true}, {body: `{"status":{"message":"patched"}}`}, first, {body: `{"status":{"conditions":[{"type":"A","status":"False"}]}}`}},
		"with metadata":    {{body: `{"metadata":{"annotations":{"a":"b"}},"status":{"message":"m"}}`, machinery: true}, first, {body: lastStatus}},
		"metadata before":  {{body: `{"metadata":{"annotations":{"a":"b"}}}`, machinery: true}, first},
		"dry run":          {{body: firstStatus, query: "dryRun=All", machinery: true}, first},
		"two options":      {{body: firstStatus, query: "fieldManager=a&fieldManager=b", machinery: true}, {body: lastStatus, query: "fieldManager=" + strings.Repeat("x", 200), machinery: true}, {body: firstStatus, query: "force=true", machinery: true}},
		"without a name":   {{body: firstStatus, agent: "/"}},
		"quantities":       left(`{"status":{"containerStatuses":[{"name":"main","image":"","imageID":"","ready":true,"restartCount":0,"lastState":{},"state":{},"allocatedResources":{"cpu":"1e1000000000"}}]}}`),
		"ended containers": {{body: lastStatus}, {body: firstStatus, machinery: true}},
	}
}

// TestStatusPatchWays sends the same patches the short way and the machinery's, of a new pod
// each: all that is not an identity or a time of now is to be equal, the refusals too. What
// was served the short way shares its spec with the pod before.
func TestStatusPatchWays(t *testing.T) {
	s := start(t, t.TempDir())
	pods := kubernetes.NewForConfigOrDie(s.ClientConfig(admin)).CoreV1().Pods("default")
	for name, sequence := range statusSequences() {
		for _, accept := range []string{runtime.ContentTypeJSON, runtime.ContentTypeProtobuf, "application/json;as=Table;g=meta.k8s.io;v=v1,application/json", "application/yaml", "application/none"} {
			t.Run(name+" "+accept, func(t *testing.T) {
				var got [2][]answered
				for i, long := range []bool{false, true} {
					made := richPod("patched")
					made.Spec.Containers[0].Name = "main"
					made.Spec.RestartPolicy = corev1.RestartPolicyNever
					made.Finalizers = nil
					p, err := pods.Create(t.Context(), made, metav1.CreateOptions{})
					if err != nil {
						t.Fatal(err)
					}
					if err := s.Bind(t.Context(), bindingOf(p, "n1")); err != nil {
						t.Fatal(err)
					}
					for _, way := range sequence {
						before := stored(t, s, p.Name)
						was := before.DeepCopy()
						answer := patchStatus(t, s, p, way, accept, long)
						now := stored(t, s, p.Name)
						served := now.ResourceVersion != before.ResourceVersion && &now.Spec.Containers[0] == &before.Spec.Containers[0]
						plain := accept == runtime.ContentTypeJSON || accept == runtime.ContentTypeProtobuf || accept == runtime.ContentTypeYAML
						if want := !long && !way.machinery && plain; served != want {
							t.Errorf("%.60s: served the short way: %t, want %t (%d %.200s)", way.body, served, want, answer.code, answer.text)
						}
						if !reflect.DeepEqual(before, was) {
							t.Errorf("%.60s changes the pod that readers have:\n%+v\n%+v", way.body, was, before)
						}
						got[i] = append(got[i], answer)
						got[i] = append(got[i], answered{pod: nowOff(now)})
					}
					if err := pods.Delete(t.Context(), p.Name, metav1.DeleteOptions{GracePeriodSeconds: new(int64)}); err != nil {
						t.Fatal(err)
					}
				}
				for i := range got[0] {
					a, b := got[0][i], got[1][i]
					if a.pod != nil && b.pod != nil && apiequality.Semantic.DeepEqual(a.pod, b.pod) {
						a.pod, b.pod = nil, nil
					}
					if !reflect.DeepEqual(a, b) {
						t.Errorf("patch %d %.80s\nshort: %+v\n%+v\nlong:  %+v\n%+v", i/2, sequence[i/2].body, a, a.pod, b, b.pod)
					}
				}
			})
		}
	}
}

// TestStatusPatchOfPodsThatGo: a pod that is being deleted is patched as others are, and one
// whose end waits for nothing any more ends with the patch. One that is gone is not found.
func TestStatusPatchOfPodsThatGo(t *testing.T) {
	s := start(t, t.TempDir())
	pods := kubernetes.NewForConfigOrDie(s.ClientConfig(admin)).CoreV1().Pods("default")
	for name, tc := range map[string]struct {
		finalizer bool
		grace     int64
	}{
		"graceful":           {grace: 30},
		"held, graceful":     {finalizer: true, grace: 30},
		"held, without time": {finalizer: true, grace: 0},
	} {
		t.Run(name, func(t *testing.T) {
			var got [2][]answered
			for i, long := range []bool{false, true} {
				made := pod("going")
				if tc.finalizer {
					made.Finalizers = []string{"example.com/hold"}
				}
				p, err := pods.Create(t.Context(), made, metav1.CreateOptions{})
				if err != nil {
					t.Fatal(err)
				}
				if err := s.Bind(t.Context(), bindingOf(p, "n1")); err != nil {
					t.Fatal(err)
				}
				if err := pods.Delete(t.Context(), p.Name, metav1.DeleteOptions{GracePeriodSeconds: &tc.grace}); err != nil {
					t.Fatal(err)
				}
				before := stored(t, s, p.Name)
				answer := patchStatus(t, s, p, statusPatch{body: firstStatus}, runtime.ContentTypeJSON, long)
				now := stored(t, s, p.Name)
				if served := &now.Spec.Containers[0] == &before.Spec.Containers[0]; served == long {
					t.Errorf("long %t: the spec is shared: %t", long, served)
				}
				if now.DeletionTimestamp == nil || !now.DeletionTimestamp.Equal(before.DeletionTimestamp) || *now.DeletionGracePeriodSeconds != tc.grace {
					t.Errorf("deletion %v %v, want %v %d", now.DeletionTimestamp, now.DeletionGracePeriodSeconds, before.DeletionTimestamp, tc.grace)
				}
				got[i] = append(got[i], answer)
				if tc.finalizer {
					if _, err := pods.Patch(t.Context(), p.Name, types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`), metav1.PatchOptions{}); err != nil {
						t.Fatal(err)
					}
				}
				if tc.grace > 0 {
					if err := pods.Delete(t.Context(), p.Name, metav1.DeleteOptions{GracePeriodSeconds: new(int64)}); err != nil {
						t.Fatal(err)
					}
				}
				got[i] = append(got[i], patchStatus(t, s, p, statusPatch{body: firstStatus}, runtime.ContentTypeJSON, long))
			}
			if !reflect.DeepEqual(got[0], got[1]) {
				t.Errorf("short: %+v\nlong: %+v", got[0], got[1])
			}
			if last := got[0][1]; last.code != http.StatusNotFound {
				t.Errorf("a pod that is gone: %d %s", last.code, last.text)
			}
		})
	}
}

// A patched pod is kept in memory as it was made: it is what a server that has only the stored
// bytes makes of them.
func TestStatusPatchKeepsWhatIsStored(t *testing.T) {
	dir := t.TempDir()
	kept := map[string]*corev1.Pod{}
	t.Run("patch", func(t *testing.T) {
		s := start(t, dir)
		pods := kubernetes.NewForConfigOrDie(s.ClientConfig(admin)).CoreV1().Pods("default")
		for name, sequence := range statusSequences() {
			made := pod("kept-" + strings.NewReplacer(" ", "-", ",", "", "'", "").Replace(name))
			made.Spec.RestartPolicy = corev1.RestartPolicyNever
			p, err := pods.Create(t.Context(), made, metav1.CreateOptions{})
			if err != nil {
				t.Fatal(err)
			}
			if err := s.Bind(t.Context(), bindingOf(p, "n1")); err != nil {
				t.Fatal(err)
			}
			for _, way := range sequence {
				patchStatus(t, s, p, way, runtime.ContentTypeProtobuf, false)
			}
			kept[p.Name] = stored(t, s, p.Name)
		}
	})
	t.Run("again", func(t *testing.T) {
		s := start(t, dir)
		for name, pod := range kept {
			got := stored(t, s, name)
			if !apiequality.Semantic.DeepEqual(got, pod) {
				t.Errorf("%s decoded:\n%#v\nkept:\n%#v", name, got, pod)
			}
			if !reflect.DeepEqual(got.Status, pod.Status) {
				t.Errorf("%s decoded:\n%#v\nkept:\n%#v", name, got.Status, pod.Status)
			}
			for i := range pod.ManagedFields {
				if a, b := got.ManagedFields[i].Time, pod.ManagedFields[i].Time; !reflect.DeepEqual(a, b) {
					t.Errorf("%s: managed at %#v, kept as %#v", name, a, b)
				}
			}
		}
	})
}

// TestStatusPatchesAtOnce: of patches of one pod that meet, none is lost, whichever way it goes.
func TestStatusPatchesAtOnce(t *testing.T) {
	s := start(t, t.TempDir())
	pods := overTLS(t, s).CoreV1().Pods("default")
	p, err := pods.Create(t.Context(), pod("contended"), metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	const writers, each = 8, 12
	var wg sync.WaitGroup
	for w := range writers {
		wg.Go(func() {
			for i := range each {
				options, kind := metav1.PatchOptions{FieldManager: fmt.Sprintf("writer-%d", w)}, types.StrategicMergePatchType
				body := fmt.Appendf(nil, `{"metadata":{"uid":%q},"status":{"conditions":[{"type":"example.com/W%d-%d","status":"True"}]}}`, p.UID, w, i)
				if i%4 == 3 {
					body = fmt.Appendf(nil, `{"metadata":{"annotations":{"a%d":"%d"}},"status":{"conditions":[{"type":"example.com/W%d-%d","status":"True"}]}}`, w, i, w, i)
				}
				if _, err := pods.Patch(t.Context(), p.Name, kind, body, options, "status"); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	got, err := pods.Get(t.Context(), p.Name, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	have := map[string]bool{}
	for _, c := range got.Status.Conditions {
		have[string(c.Type)] = true
	}
	if len(have) != writers*each || len(got.Annotations) != writers {
		t.Errorf("%d conditions and %d annotations, want %d and %d", len(have), len(got.Annotations), writers*each, writers)
	}
	if len(got.ManagedFields) != writers+1 {
		t.Errorf("%d managers, want %d", len(got.ManagedFields), writers+1)
	}
}
