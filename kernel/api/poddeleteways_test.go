package api_test

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"reflect"
	"strings"
	"sync"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"pintle.dev/pintle/kernel/api"
)

var nodeN1 = &user.DefaultInfo{Name: "system:node:n1", Groups: []string{user.NodesGroup, user.AllAuthenticated}}

// podDelete is one delete of a sequence.
type podDelete struct {
	// body has $UID and $RV of the pod as it is stored. query is set where it is not empty.
	body, query string
	kind        string // of the body; empty: JSON
	who         user.Info
	machinery   bool // it is left to that
}

// send sends a delete of a pod, the short way or the machinery's.
func (d podDelete) send(t *testing.T, s *api.Server, p *corev1.Pod, accept string, long bool) answered {
	t.Helper()
	if d.who == nil {
		d.who = admin
	}
	client, err := rest.HTTPClientFor(s.ClientConfig(d.who))
	if err != nil {
		t.Fatal(err)
	}
	query := d.query
	if long {
		query = strings.Trim(query+"&timeout=30s", "&")
	}
	body := strings.NewReplacer("$UID", string(p.UID), "$RV", p.ResourceVersion).Replace(d.body)
	req, err := http.NewRequestWithContext(t.Context(), http.MethodDelete, "http://inprocess/api/v1/namespaces/default/pods/"+p.Name+"?"+query, bytes.NewReader([]byte(body)))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Content-Type", runtime.ContentTypeJSON)
	if d.kind != "" {
		req.Header.Set("Content-Type", d.kind)
	}
	req.Header.Set("Accept", accept)
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
	switch {
	case resp.StatusCode != http.StatusOK && resp.StatusCode != http.StatusAccepted:
		out.text = strings.NewReplacer(string(p.UID), "UID", "("+p.ResourceVersion+")", "(RV)").Replace(string(raw))
		return out
	case accept == runtime.ContentTypeJSON:
		out.pod = &corev1.Pod{}
		if err := json.Unmarshal(raw, out.pod); err != nil {
			t.Fatal(err)
		}
	case accept == runtime.ContentTypeProtobuf:
		pod := &corev1.Pod{}
		wrapped := runtime.Unknown{}
		if err := wrapped.Unmarshal(bytes.TrimPrefix(raw, []byte("k8s\x00"))); err != nil {
			t.Fatal(err)
		}
		if err := pod.Unmarshal(wrapped.Raw); err != nil {
			t.Fatal(err)
		}
		out.pod, out.text = pod, wrapped.APIVersion+" "+wrapped.Kind
	}
	if out.pod != nil {
		if out.pod.DeletionTimestamp == nil {
			t.Errorf("answered with a pod that is not being deleted: %+v", out.pod)
		}
		out.pod = nowOff(out.pod)
	}
	return out
}

// seen are the events of a pod until it is gone, without those that only take its grace period
// away before its end, which the machinery's way has.
func seen(t *testing.T, w watch.Interface) (kinds []string, pods []*corev1.Pod, between int) {
	t.Helper()
	for e := range w.ResultChan() {
		pod, ok := e.Object.(*corev1.Pod)
		if !ok {
			t.Fatalf("event %s %T", e.Type, e.Object)
		}
		if n := len(kinds); e.Type == watch.Deleted && n > 0 && kinds[n-1] == string(watch.Modified) && apiequality.Semantic.DeepEqual(pods[n-1], nowOff(pod)) {
			kinds, pods, between = kinds[:n-1], pods[:n-1], between+1
		}
		kinds, pods = append(kinds, string(e.Type)), append(pods, nowOff(pod))
		if e.Type == watch.Deleted {
			return kinds, pods, between
		}
	}
	t.Fatal("the watch ended")
	return nil, nil, 0
}

const (
	begins = `{"kind":"DeleteOptions","apiVersion":"v1","preconditions":{"uid":"$UID","resourceVersion":"$RV"},"propagationPolicy":"Background"}`
	ends   = `{"kind":"DeleteOptions","apiVersion":"v1","gracePeriodSeconds":0,"preconditions":{"uid":"$UID"}}`
)

// deleteSequences are deletes of one pod on a node, one after the other.
func deleteSequences(t *testing.T) map[string][]podDelete {
	t.Helper()
	first, last := podDelete{body: begins}, podDelete{body: ends, who: nodeN1}
	left := func(bodies ...string) (list []podDelete) {
		for _, body := range bodies {
			list = append(list, podDelete{body: body, machinery: true})
		}
		return append(list, first)
	}
	long := int64(7)
	raw, err := (&metav1.DeleteOptions{GracePeriodSeconds: &long}).Marshal()
	if err != nil {
		t.Fatal(err)
	}
	unknown, err := (&runtime.Unknown{TypeMeta: runtime.TypeMeta{APIVersion: "v1", Kind: "DeleteOptions"}, Raw: raw}).Marshal()
	if err != nil {
		t.Fatal(err)
	}
	other := &user.DefaultInfo{Name: "system:node:n2", Groups: nodeN1.Groups}
	nobody := &user.DefaultInfo{Name: "nobody", Groups: []string{user.AllAuthenticated}}
	// It has the name of the node's agent, and is no agent.
	alike := &user.DefaultInfo{Name: nodeN1.Name, Groups: []string{user.SystemPrivilegedGroup, user.AllAuthenticated}}
	return map[string][]podDelete{
		"a controller's and a node's": {first, last},
		"by a user":                   {{}, last},
		"with a time":                 {{body: `{"gracePeriodSeconds":5}`}, {body: `{"gracePeriodSeconds":3}`}, last},
		"longer, then nothing":        {{body: `{"gracePeriodSeconds":5}`}, {body: `{"gracePeriodSeconds":9}`, machinery: true}, {machinery: true}, last},
		"protobuf":                    {{body: "k8s\x00" + string(unknown), kind: runtime.ContentTypeProtobuf}, last},
		"not protobuf":                {{body: begins, kind: runtime.ContentTypeProtobuf, machinery: true}, {body: "k8s\x00\xff", kind: runtime.ContentTypeProtobuf, machinery: true}, first},
		"another kind of body":        {{body: begins, kind: "application/odd", machinery: true}, {body: begins, kind: "application/yaml"}},
		"by force":                    {{body: ends, machinery: true}},
		"by force, begun":             {first, {body: ends, machinery: true}},
		"by an administrator's name":  {first, {body: ends, who: alike, machinery: true}},
		"by the node at once":         {{body: ends, who: nodeN1, machinery: true}},
		"by another node":             {{body: begins, who: other, machinery: true}, first, {body: ends, who: other, machinery: true}, last},
		"by nobody":                   {{body: begins, who: nobody, machinery: true}, first, {body: ends, who: nobody, machinery: true}},
		"of another pod":              left(`{"preconditions":{"uid":"another"}}`, `{"preconditions":{"resourceVersion":"1"}}`, `{"preconditions":{"uid":""}}`),
		"of another pod, at last":     {first, {body: strings.Replace(ends, "$UID", "another", 1), who: nodeN1, machinery: true}, {body: `{"gracePeriodSeconds":0,"preconditions":{"resourceVersion":"1"}}`, who: nodeN1, machinery: true}, last},
		"as it was seen, at last":     {first, {body: `{"gracePeriodSeconds":0,"preconditions":{"resourceVersion":"$RV"}}`, who: nodeN1}},
		"invalid":                     left(`{"gracePeriodSeconds":"1"}`, `{"propagationPolicy":"Odd"}`, `{"dryRun":["Odd"]}`, `{`, `[]`, `null x`, `{"kind":"Pod","apiVersion":"v1"}`, `{"orphanDependents":true,"propagationPolicy":"Orphan"}`),
		"odd":                         {{body: `null`}, {body: `{"nothing":1,"gracePeriodSeconds":20}`}},
		"of another version":          {{body: `{"kind":"DeleteOptions","apiVersion":"v2"}`}, last},
		"negative":                    {{body: `{"gracePeriodSeconds":-1}`, machinery: true}},
		"dry run":                     {{body: `{"dryRun":["All"]}`, machinery: true}, {query: "dryRun=All", machinery: true}, first, {body: `{"dryRun":["All"],"gracePeriodSeconds":0}`, who: nodeN1, machinery: true}},
		"by a query":                  {{query: "gracePeriodSeconds=9", machinery: true}, {body: `{"gracePeriodSeconds":2}`, query: "gracePeriodSeconds=9", machinery: true}},
		"orphaning":                   {{body: `{"propagationPolicy":"Orphan"}`, machinery: true}, {body: ends, who: nodeN1, machinery: true}},
		"foreground":                  {{body: `{"propagationPolicy":"Foreground"}`, machinery: true}, {body: begins, machinery: true}},
		"old orphaning":               {{body: `{"orphanDependents":false}`, machinery: true}, last},
		"a large body":                {{body: `{"gracePeriodSeconds":4,"kind":"` + strings.Repeat("x", 300<<10) + `"}`, machinery: true}, first},
	}
}

// TestPodDeleteWays sends the same deletes the short way and the machinery's, of a new pod each:
// answers, refusals, what is stored and what a watch sees are to be equal, but for the event
// before a pod's end.
func TestPodDeleteWays(t *testing.T) {
	s := start(t, t.TempDir())
	for name, sequence := range deleteSequences(t) {
		for _, held := range []bool{false, true} {
			for _, accept := range []string{runtime.ContentTypeJSON, runtime.ContentTypeProtobuf, "application/json;as=Table;g=meta.k8s.io;v=v1,application/json", "application/none"} {
				if held && accept != runtime.ContentTypeJSON {
					continue
				}
				way := name + " " + accept
				if held {
					way += ", held"
				}
				t.Run(way, func(t *testing.T) {
					short, long := deleteBothWays(t, s, sequence, accept, held)
					if !reflect.DeepEqual(short, long) {
						for i := range min(len(short), len(long)) {
							if !reflect.DeepEqual(short[i], long[i]) {
								t.Errorf("%d:\nshort: %+v %+v\nlong:  %+v %+v", i, short[i], short[i].pod, long[i], long[i].pod)
							}
						}
						if len(short) != len(long) {
							t.Errorf("%d and %d answers and events", len(short), len(long))
						}
					}
				})
			}
		}
	}
}

func deleteBothWays(t *testing.T, s *api.Server, sequence []podDelete, accept string, held bool) (short, long []answered) {
	t.Helper()
	pods := kubernetes.NewForConfigOrDie(s.ClientConfig(admin)).CoreV1().Pods("default")
	plain := accept == runtime.ContentTypeJSON || accept == runtime.ContentTypeProtobuf
	var all [2][]answered
	for i := range all {
		made := richPod("deleted")
		if !held {
			made.Finalizers = nil
		}
		p, err := pods.Create(t.Context(), made, metav1.CreateOptions{})
		if err != nil {
			t.Fatal(err)
		}
		if err := s.Bind(t.Context(), bindingOf(p, "n1")); err != nil {
			t.Fatal(err)
		}
		p = stored(t, s, p.Name)
		w, err := pods.Watch(t.Context(), metav1.ListOptions{ResourceVersion: p.ResourceVersion, FieldSelector: "metadata.name=" + p.Name})
		if err != nil {
			t.Fatal(err)
		}
		defer w.Stop()
		atOnce := false
		for _, d := range sequence {
			was := p.DeepCopy()
			answer := d.send(t, s, p, accept, i == 1)
			if !reflect.DeepEqual(p, was) {
				t.Errorf("%.80s changes the pod that readers have:\n%+v\n%+v", d.body, was, p)
			}
			all[i] = append(all[i], answer)
			if _, err := pods.Get(t.Context(), p.Name, metav1.GetOptions{}); apierrors.IsNotFound(err) {
				atOnce = i == 0 && !d.machinery && plain
				break
			}
			now := stored(t, s, p.Name)
			served := now.ResourceVersion != p.ResourceVersion && &now.Spec.Containers[0] == &p.Spec.Containers[0]
			if want := i == 0 && !d.machinery && plain && !(held && d.who == nodeN1); served != want {
				t.Errorf("%.80s: served the short way: %t, want %t (%d %.200s)", d.body, served, want, answer.code, answer.text)
			}
			p = now
			all[i] = append(all[i], answered{pod: nowOff(now)})
		}
		if err := pods.Delete(t.Context(), p.Name, metav1.DeleteOptions{GracePeriodSeconds: new(int64)}); err != nil && !apierrors.IsNotFound(err) {
			t.Fatal(err)
		}
		if _, err := pods.Patch(t.Context(), p.Name, types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`), metav1.PatchOptions{}); err != nil && !apierrors.IsNotFound(err) {
			t.Fatal(err)
		}
		kinds, objects, between := seen(t, w)
		if atOnce && between != 0 {
			t.Errorf("the pod changed before its end: %v", kinds)
		}
		for k, kind := range kinds {
			all[i] = append(all[i], answered{text: kind, pod: objects[k]})
		}
	}
	return all[0], all[1]
}

// A pod that is marked the short way is kept in memory as a server that has only the stored
// bytes makes of them.
func TestPodDeleteKeepsWhatIsStored(t *testing.T) {
	dir := t.TempDir()
	kept := map[string]*corev1.Pod{}
	t.Run("delete", func(t *testing.T) {
		s := start(t, dir)
		pods := kubernetes.NewForConfigOrDie(s.ClientConfig(admin)).CoreV1().Pods("default")
		for _, name := range []string{"a", "b"} {
			p, err := pods.Create(t.Context(), richPod(name), metav1.CreateOptions{})
			if err != nil {
				t.Fatal(err)
			}
			if err := s.Bind(t.Context(), bindingOf(p, "n1")); err != nil {
				t.Fatal(err)
			}
			before := stored(t, s, name)
			if answer := (podDelete{body: `{"gracePeriodSeconds":90}`}).send(t, s, before, runtime.ContentTypeJSON, name == "b"); answer.code != http.StatusOK {
				t.Fatalf("%+v", answer)
			}
			kept[name] = stored(t, s, name)
			if generation := kept[name].Generation; generation != before.Generation+1 {
				t.Errorf("generation %d after %d", generation, before.Generation)
			}
		}
	})
	t.Run("again", func(t *testing.T) {
		s := start(t, dir)
		for name, pod := range kept {
			got := stored(t, s, name)
			if !apiequality.Semantic.DeepEqual(got, pod) || !reflect.DeepEqual(got.DeletionTimestamp, pod.DeletionTimestamp) {
				t.Errorf("%s decoded:\n%#v\nkept:\n%#v", name, got, pod)
			}
		}
	})
}

// TestPodDeletesAtOnce: where deletes, patches and a finalizer that comes meet, each pod has one
// end, nothing ends while it is held, and each agent is told that its pod is gone.
func TestPodDeletesAtOnce(t *testing.T) {
	s := start(t, t.TempDir())
	pods := overTLS(t, s).CoreV1().Pods("default")
	agent := kubernetes.NewForConfigOrDie(s.ClientConfig(nodeN1)).CoreV1().Pods("default")
	w, err := pods.Watch(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer w.Stop()
	const count, each = 12, 4
	hold := func(name string, finalizers string) error {
		_, err := pods.Patch(t.Context(), name, types.MergePatchType, []byte(`{"metadata":{"finalizers":`+finalizers+`}}`), metav1.PatchOptions{})
		return err
	}
	var wg sync.WaitGroup
	for i := range count {
		name := "meet-" + string(rune('a'+i))
		p, err := pods.Create(t.Context(), pod(name), metav1.CreateOptions{})
		if err != nil {
			t.Fatal(err)
		}
		if err := s.Bind(t.Context(), bindingOf(p, "n1")); err != nil {
			t.Fatal(err)
		}
		if err := hold(name, `["example.com/hold"]`); err != nil {
			t.Fatal(err)
		}
		for k := range each {
			wg.Go(func() {
				if err := pods.Delete(t.Context(), name, metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &p.UID}}); err != nil && !apierrors.IsNotFound(err) {
					t.Error(err)
				}
				now := metav1.DeleteOptions{GracePeriodSeconds: new(int64), Preconditions: &metav1.Preconditions{UID: &p.UID}}
				if err := agent.Delete(t.Context(), name, now); err != nil && !apierrors.IsNotFound(err) {
					t.Error(err)
				}
				if k == 0 {
					if _, err := pods.Get(t.Context(), name, metav1.GetOptions{}); err != nil {
						t.Errorf("a pod that is held: %v", err)
					}
					if err := hold(name, "null"); err != nil {
						t.Error(err)
					}
				}
			})
		}
	}
	wg.Wait()
	ended := map[string]int{}
	for len(ended) < count {
		if e := <-w.ResultChan(); e.Type == watch.Deleted {
			ended[e.Object.(*corev1.Pod).Name]++
		}
	}
	list, err := pods.List(t.Context(), metav1.ListOptions{})
	if err != nil || len(list.Items) > 0 {
		t.Errorf("%d pods are left, %v", len(list.Items), err)
	}
	for name, n := range ended {
		if n != 1 {
			t.Errorf("%s ended %d times", name, n)
		}
	}
}
