package serviceproxy

import (
	"testing"

	corev1 "k8s.io/api/core/v1"

	"pintle.dev/pintle/sdk/proxy"
)

// TestOwn: what a node serves by itself counts for a service without pods of its own, and each change
// has the service handed over anew.
func TestOwn(t *testing.T) {
	name, other := proxy.Name{Namespace: "kube-system", Name: "kube-dns"}, proxy.Name{Namespace: "x", Name: "y"}
	plain := &corev1.Service{}
	theirs := &corev1.Service{Spec: corev1.ServiceSpec{Selector: map[string]string{"k8s-app": "kube-dns"}}}
	var none *Own
	if none.of(name, plain) != nil {
		t.Error("without any there are some")
	}
	f := &Feeder{dirty: map[proxy.Name]bool{}, wake: make(chan struct{}, 1)}
	var own Own
	own.Set(name, &proxy.ServiceEndpoints{}) // before Follow
	end := own.Follow(f.touch, func(n proxy.Name) bool { return n != name })
	if len(f.dirty) != 0 {
		t.Error("a feeder that starts hands everything over anyway")
	}
	e := &proxy.ServiceEndpoints{Ports: []*proxy.PortEndpoints{{PortName: "dns", Endpoints: []*proxy.Endpoint{{Ip: "192.0.2.1", Port: 10053}}}}}
	own.Set(name, e)
	if got := own.of(name, plain); got != e || !f.dirty[name] || len(f.wake) != 1 {
		t.Errorf("%v, dirty %v", got, f.dirty)
	}
	if own.of(name, theirs) != nil || own.of(other, plain) != nil || own.of(name, nil) != nil {
		t.Error("it takes the place of others' endpoints")
	}
	f.take()
	own.Set(name, e)
	if len(f.dirty) != 0 {
		t.Error("the same again is handed over")
	}
	own.Set(name, nil)
	if own.of(name, plain) != nil || !f.dirty[name] {
		t.Error("its end is not handed over")
	}
	if own.Absent(name) || !own.Absent(other) {
		t.Error("which services the cluster has is not what the feeder says")
	}
	end()
	if own.Absent(other) {
		t.Error("without a feeder it is not known")
	}
	f.take()
	own.Set(name, e)
	if len(f.dirty) != 0 {
		t.Error("a feeder that has ended is told")
	}
}
