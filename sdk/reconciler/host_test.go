package reconciler

import (
	"bytes"
	"context"
	"encoding/json"
	"log/slog"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	dynamicfake "k8s.io/client-go/dynamic/fake"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/kubernetes/scheme"

	"pintle.dev/pintle/sdk/reconciler/loop"
	"pintle.dev/pintle/sdk/reconciler/protocol"
)

var configMaps = Resource{Version: "v1", Resource: "configmaps"}

type configMap struct {
	APIVersion string            `json:"apiVersion"`
	Kind       string            `json:"kind"`
	Metadata   metadata          `json:"metadata"`
	Data       map[string]string `json:"data,omitempty"`
}

type metadata struct {
	Name      string `json:"name"`
	Namespace string `json:"namespace,omitempty"`
}

// testHost is a host over fake clients; log receives what it logs.
func testHost(t *testing.T) (h *Host, events *fake.Clientset, log *bytes.Buffer) {
	t.Helper()
	log = &bytes.Buffer{}
	events = fake.NewSimpleClientset()
	stored := &corev1.ConfigMap{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "ConfigMap"}, ObjectMeta: metav1.ObjectMeta{Namespace: "d", Name: "there"}, Data: map[string]string{"a": "1"}}
	operations := loop.OperationsOver("tester", dynamicfake.NewSimpleDynamicClient(scheme.Scheme, stored), events.CoreV1(), slog.New(slog.NewTextHandler(log, nil)))
	t.Cleanup(operations.Close)
	return HostOver(func(function string, request []byte) []byte {
		return operations.Operate(t.Context(), function, request)
	}), events, log
}

func TestHostReadsAndWrites(t *testing.T) {
	h, events, log := testHost(t)
	var got configMap
	if err := h.Get(configMaps, "d", "there", &got); err != nil || got.Data["a"] != "1" {
		t.Fatalf("get: %v, %+v", err, got)
	}
	if err := h.Get(configMaps, "d", "gone", &got); !IsNotFound(err) || err.Error() != `configmaps "gone" not found` {
		t.Errorf("get of what is not there: %v", err)
	}
	fresh := configMap{APIVersion: "v1", Kind: "ConfigMap", Metadata: metadata{Name: "fresh"}, Data: map[string]string{"b": "2"}}
	if err := h.Create(configMaps, "d", fresh, &got); err != nil || got.Data["b"] != "2" {
		t.Errorf("create: %v, %+v", err, got)
	}
	if err := h.Create(configMaps, "d", fresh, nil); !IsAlreadyExists(err) {
		t.Errorf("create again: %v", err)
	}
	got.Data["b"] = "3"
	if err := h.Update(configMaps, "d", "", got, nil); err != nil {
		t.Errorf("update: %v", err)
	}
	if err := h.Patch(configMaps, "d", "fresh", MergePatch, map[string]any{"data": map[string]any{"c": "4"}}, PatchOptions{}, &got); err != nil || got.Data["b"] != "3" || got.Data["c"] != "4" {
		t.Errorf("patch: %v, %+v", err, got)
	}
	var list struct{ Items []configMap }
	if err := h.List(configMaps, "d", ListOptions{}, &list); err != nil || len(list.Items) != 2 {
		t.Errorf("list: %v, %d items", err, len(list.Items))
	}
	if err := h.Delete(configMaps, "d", "there", DeleteOptions{}); err != nil {
		t.Errorf("delete: %v", err)
	}
	if err := h.Get(configMaps, "d", "there", &got); !IsNotFound(err) {
		t.Errorf("get of what was deleted: %v", err)
	}
	h.Info("done", "what", "all", "number", 3)
	if line := log.String(); !strings.Contains(line, `msg=done`) || !strings.Contains(line, "what=all") || !strings.Contains(line, "number=3") {
		t.Errorf("log %q", line)
	}
	if err := h.Event(Object{APIVersion: "v1", Kind: "ConfigMap", Namespace: "d", Name: "fresh"}, EventNormal, "Made", "made it"); err != nil {
		t.Errorf("event: %v", err)
	}
	for end := time.Now().Add(2 * time.Minute); ; time.Sleep(time.Millisecond) {
		list, err := events.CoreV1().Events("d").List(context.Background(), metav1.ListOptions{})
		if err == nil && len(list.Items) == 1 && list.Items[0].Reason == "Made" && list.Items[0].Source.Component == "tester" {
			break
		}
		if time.Now().After(end) {
			t.Fatalf("events %+v, %v", list, err)
		}
	}
}

// Requests come from code that nobody vouches for.
func TestOperateRefuses(t *testing.T) {
	h, _, _ := testHost(t)
	tests := map[string]struct {
		function, request, want string
	}{
		"no JSON":              {protocol.FunctionGet, `{`, "get: request: unexpected end of JSON input"},
		"no resource":          {protocol.FunctionGet, `{"name":"a"}`, `get: resource "": want version/resource or group/version/resource, such as v1/configmaps or apps/v1/deployments`},
		"no name":              {protocol.FunctionDelete, `{"resource":"v1/configmaps","namespace":"d"}`, "delete v1/configmaps: name is missing"},
		"unknown patch":        {protocol.FunctionPatch, `{"resource":"v1/configmaps","namespace":"d","name":"there","patchType":"x"}`, `patch v1/configmaps: patchType "x"; want json, merge, strategic or apply`},
		"no object":            {protocol.FunctionCreate, `{"resource":"v1/configmaps","namespace":"d"}`, "create v1/configmaps: object: unexpected end of JSON input"},
		"unknown function":     {"reboot", `{"resource":"v1/configmaps"}`, `there is no host function "reboot"`},
		"event of an odd type": {protocol.FunctionEvent, `{"kind":"Pod","name":"p","reason":"R","type":"Odd"}`, `event: type "Odd"; want Normal or Warning`},
		"event of nothing":     {protocol.FunctionEvent, `{"type":"Normal"}`, "event: want kind and name of the object, and a reason"},
		"too large":            {protocol.FunctionGet, strings.Repeat(" ", protocol.MaxRequestBytes+1), "Request entity too large: get: a request of 4194305 bytes; at most 4194304 are taken"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			var answer protocol.Answer
			if err := json.Unmarshal(h.operate(test.function, []byte(test.request)), &answer); err != nil {
				t.Fatal(err)
			}
			if answer.Status == nil || answer.Status.Message != test.want {
				t.Errorf("answer %+v, want %q", answer.Status, test.want)
			}
		})
	}
}
