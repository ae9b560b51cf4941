package main

import (
	"fmt"

	contractv1 "pintle.dev/pintle/sdk/contract/v1"
	"pintle.dev/pintle/sdk/proxy"
)

// everything is all services, each with one port and its endpoints.
func everything(services, endpoints int) *proxy.Diff {
	diff := &proxy.Diff{Generation: 1, Reset_: true, Node: &proxy.Node{}}
	for i := range services {
		diff.Changes = append(diff.Changes, service(i), endpointsOf(i, endpoints, 0))
	}
	return diff
}

func nameOf(i int) *proxy.ServiceName {
	return &proxy.ServiceName{Namespace: "bench", Name: fmt.Sprintf("service-%05d", i)}
}

// address writes a number as an address from 10.BASE on, without those that end with 0 or 255.
func address(base, i int) string {
	return fmt.Sprintf("10.%d.%d.%d", base+i/(254*256), i/254%256, 1+i%254)
}

func service(i int) *proxy.Change {
	return &proxy.Change{Change: &contractv1.ProxyChange_ServiceSet{ServiceSet: &proxy.Service{
		Name: nameOf(i), Type: "ClusterIP", ClusterIps: []string{address(0, i)}, SessionAffinity: "None", InternalTrafficPolicy: "Cluster",
		Ports: []*proxy.ServicePort{{Name: "http", Protocol: "TCP", Port: 80}},
	}}}
}

// endpointsOf are the endpoints of a service; another version has another first one.
func endpointsOf(i, count, version int) *proxy.Change {
	var list []*proxy.Endpoint
	for n := range count {
		at := i*(count+1) + n
		if n == 0 && version%2 == 1 {
			at = i*(count+1) + count
		}
		list = append(list, &proxy.Endpoint{Ip: address(128, at), Port: 8080, Ready: true, Serving: true, NodeName: fmt.Sprintf("node-%d", at%100)})
	}
	return &proxy.Change{Change: &contractv1.ProxyChange_EndpointsSet{EndpointsSet: &proxy.ServiceEndpoints{
		Name: nameOf(i), Ports: []*proxy.PortEndpoints{{PortName: "http", Protocol: "TCP", Endpoints: list}},
	}}}
}
