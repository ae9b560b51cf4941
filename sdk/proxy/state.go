package proxy

import contractv1 "pintle.dev/pintle/sdk/contract/v1"

// Name names a service, comparable.
type Name struct{ Namespace, Name string }

// String is namespace/name.
func (n Name) String() string { return n.Namespace + "/" + n.Name }

// NameOf turns the wire's name into a comparable one.
func NameOf(n *ServiceName) Name { return Name{n.GetNamespace(), n.GetName()} }

// State is every service and its endpoints after the diffs applied so far.
// The zero value is empty. It is not safe for use by several goroutines.
type State struct {
	Generation uint64
	Node       *Node // what diffs said of the proxy's node; nil: nothing
	Services   map[Name]*Service
	Endpoints  map[Name]*ServiceEndpoints
}

// Apply folds a diff in and returns the names that it touched; after a reset
// also those that are gone, and all of them when the node's zone changed.
func (s *State) Apply(diff *Diff) map[Name]bool {
	touched := map[Name]bool{}
	if diff.GetReset_() || s.Services == nil {
		for name := range s.Services {
			touched[name] = true
		}
		for name := range s.Endpoints {
			touched[name] = true
		}
		s.Services, s.Endpoints = map[Name]*Service{}, map[Name]*ServiceEndpoints{}
	}
	for _, change := range diff.GetChanges() {
		switch c := change.GetChange().(type) {
		case *contractv1.ProxyChange_ServiceSet:
			name := NameOf(c.ServiceSet.GetName())
			s.Services[name], touched[name] = c.ServiceSet, true
		case *contractv1.ProxyChange_ServiceRemove:
			name := NameOf(c.ServiceRemove)
			delete(s.Services, name)
			touched[name] = true
		case *contractv1.ProxyChange_EndpointsSet:
			name := NameOf(c.EndpointsSet.GetName())
			s.Endpoints[name], touched[name] = c.EndpointsSet, true
		case *contractv1.ProxyChange_EndpointsRemove:
			name := NameOf(c.EndpointsRemove)
			delete(s.Endpoints, name)
			touched[name] = true
		}
	}
	if node := diff.GetNode(); node != nil {
		if node.GetZone() != s.Node.GetZone() {
			for name := range s.Services {
				touched[name] = true
			}
		}
		s.Node = node
	}
	s.Generation = diff.GetGeneration()
	return touched
}

// Of returns the endpoints of one port of a service, or nil.
func (s *State) Of(name Name, port *ServicePort) []*Endpoint {
	for _, p := range s.Endpoints[name].GetPorts() {
		if p.GetPortName() == port.GetName() && p.GetProtocol() == port.GetProtocol() {
			return p.GetEndpoints()
		}
	}
	return nil
}
