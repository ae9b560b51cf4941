package cri_test

import (
	"reflect"
	"slices"
	"testing"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"pintle.dev/pintle/kernel/node/cri"
	"pintle.dev/pintle/kernel/node/cri/critest"
)

// TestPodStatusWhole: a runtime that tells the containers with a sandbox's status is asked
// for nothing else, and the answer is the same.
func TestPodStatusWhole(t *testing.T) {
	rt := critest.New(t)
	client, err := cri.Dial(rt.Endpoint, "n")
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	labels := map[string]string{cri.LabelPodUID: "u", cri.LabelPodName: "p", cri.LabelPodNamespace: "ns"}
	for attempt := range uint32(2) {
		config := &runtimeapi.PodSandboxConfig{Metadata: &runtimeapi.PodSandboxMetadata{Name: "p", Uid: "u", Namespace: "ns", Attempt: attempt}, Labels: labels}
		sandbox, err := client.RunPodSandbox(t.Context(), &runtimeapi.RunPodSandboxRequest{Config: config})
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range []string{"a", "b"} {
			own := map[string]string{cri.LabelContainerName: name}
			for k, v := range labels {
				own[k] = v
			}
			made, err := client.CreateContainer(t.Context(), &runtimeapi.CreateContainerRequest{PodSandboxId: sandbox.PodSandboxId, SandboxConfig: config,
				Config: &runtimeapi.ContainerConfig{Metadata: &runtimeapi.ContainerMetadata{Name: name}, Image: &runtimeapi.ImageSpec{Image: "i"}, Labels: own}})
			if err != nil {
				t.Fatal(err)
			}
			if _, err := client.StartContainer(t.Context(), &runtimeapi.StartContainerRequest{ContainerId: made.ContainerId}); err != nil {
				t.Fatal(err)
			}
		}
	}
	look := func(whole bool) (*cri.PodStatus, int) {
		rt.Lock()
		rt.Whole, rt.Questions = whole, 0
		rt.Unlock()
		st, err := client.PodStatus(t.Context(), "u")
		if err != nil {
			t.Fatal(err)
		}
		rt.Lock()
		defer rt.Unlock()
		return st, rt.Questions
	}
	parts, asked := look(false)
	whole, none := look(true)
	if asked != 5 || none != 0 || len(whole.Containers) != 4 || len(whole.Sandboxes) != 2 {
		t.Errorf("%d and %d questions about containers, want 5 and none; %d containers in %d sandboxes", asked, none, len(whole.Containers), len(whole.Sandboxes))
	}
	if !reflect.DeepEqual(names(parts), names(whole)) {
		t.Errorf("%v, and with the sandboxes %v", names(parts), names(whole))
	}
	ids := []string{whole.Sandboxes[0].Id, whole.Sandboxes[1].Id}
	for _, tells := range []bool{false, true} {
		rt.Lock()
		rt.Whole = tells
		rt.Unlock()
		known, err := client.PodStatusOf(t.Context(), "u", append([]string{"gone"}, ids...))
		if err != nil || !reflect.DeepEqual(names(known), names(whole)) || !reflect.DeepEqual(known.IPs, whole.IPs) {
			t.Errorf("of known sandboxes %v, want %v, %v", names(known), names(whole), err)
		}
	}
}

func names(st *cri.PodStatus) (all [][5]string) {
	for _, c := range st.Containers {
		all = append(all, [5]string{c.ID, c.Name, c.SandboxID, c.State.String(), c.Created.String()})
	}
	return append(all, [5]string{st.Namespace, st.Name, string(st.UID)})
}

// TestSandboxIPs: a pod's addresses are in the order of the node's families, one of each, whatever the runtime's order is.
func TestSandboxIPs(t *testing.T) {
	status := func(ips ...string) *runtimeapi.PodSandboxStatus {
		n := &runtimeapi.PodSandboxNetworkStatus{Ip: ips[0]}
		for _, ip := range ips[1:] {
			n.AdditionalIps = append(n.AdditionalIps, &runtimeapi.PodIP{Ip: ip})
		}
		return &runtimeapi.PodSandboxStatus{Network: n}
	}
	for _, tt := range []struct {
		ipv6 bool
		from []string
		want []string
	}{
		{false, []string{"10.0.0.1"}, []string{"10.0.0.1"}},
		{true, []string{"10.0.0.1"}, []string{"10.0.0.1"}},
		{false, []string{"fd00::1", "10.0.0.1"}, []string{"10.0.0.1", "fd00::1"}},
		{true, []string{"10.0.0.1", "fd00::1"}, []string{"fd00::1", "10.0.0.1"}},
		{false, []string{"10.0.0.1", "10.0.0.2", "fd00::1", "fd00::2"}, []string{"10.0.0.1", "fd00::1"}},
		{false, []string{"nonsense", "fd00::1"}, []string{"fd00::1"}},
		{false, []string{""}, nil},
	} {
		c := &cri.Client{PreferIPv6: tt.ipv6}
		if got := c.SandboxIPs(status(tt.from...)); !slices.Equal(got, tt.want) {
			t.Errorf("%+v: %q", tt, got)
		}
	}
	if got := (&cri.Client{}).SandboxIPs(&runtimeapi.PodSandboxStatus{}); got != nil {
		t.Errorf("without a network: %q", got)
	}
}
