package nftables

import (
	nft "github.com/google/nftables"
)

// setID is one of the sets and maps that every table has.
type setID uint8

const (
	clusterIPs          setID = iota // addresses
	serviceIPs                       // front → chain
	serviceNodePorts                 // node port → chain
	noEndpointServices               // front → drop or the chain that rejects
	noEndpointNodePorts              // node port → the same
	firewallIPs                      // front → chain of source ranges
	externalServices                 // front of an address for outside → front of the cluster IP
	nodePortServices                 // node port → front of the cluster IP
	clusterEndpoints                 // front of the cluster IP and number → endpoint, traffic policy Cluster
	localEndpoints                   // the same, policy Local
	clusterMembers                   // front of the cluster IP with endpoint, of ports with affinity
	localMembers                     // the same, policy Local
	hairpinConnections               // endpoint that may ask itself, twice its address
	nodePortIPs                      // addresses that serve node ports
	setCount
)

// definition is what a set or map is.
type definition struct {
	name, comment string
	verdicts      bool // it leads to chains
	key, data     func(f *family) []nft.SetDatatype
}

func types(list ...nft.SetDatatype) func(*family) []nft.SetDatatype {
	return func(*family) []nft.SetDatatype { return list }
}

func addressAnd(list ...nft.SetDatatype) func(*family) []nft.SetDatatype {
	return func(f *family) []nft.SetDatatype { return append([]nft.SetDatatype{f.address}, list...) }
}

var (
	frontType    = addressAnd(nft.TypeInetProto, nft.TypeInetService)
	nodePortType = types(nft.TypeInetProto, nft.TypeInetService)
	numberedType = addressAnd(nft.TypeInetProto, nft.TypeInetService, nft.TypeMark)
	targetType   = addressAnd(nft.TypeInetService)
)

func memberType(f *family) []nft.SetDatatype {
	return []nft.SetDatatype{f.address, nft.TypeInetProto, nft.TypeInetService, f.address, nft.TypeInetService}
}

func hairpinType(f *family) []nft.SetDatatype {
	return []nft.SetDatatype{f.address, f.address, nft.TypeInetProto, nft.TypeInetService}
}

var definitions = [setCount]definition{
	clusterIPs:          {name: "cluster-ips", comment: "cluster IPs in use", key: addressAnd()},
	serviceIPs:          {name: "service-ips", comment: "traffic to cluster IPs, external IPs and load balancers' addresses", verdicts: true, key: frontType},
	serviceNodePorts:    {name: "service-nodeports", comment: "traffic to node ports", verdicts: true, key: nodePortType},
	noEndpointServices:  {name: "no-endpoint-services", comment: "addresses of services without endpoints", verdicts: true, key: frontType},
	noEndpointNodePorts: {name: "no-endpoint-nodeports", comment: "node ports of services without endpoints", verdicts: true, key: nodePortType},
	firewallIPs:         {name: "firewall-ips", comment: "addresses that source ranges guard", verdicts: true, key: frontType},
	externalServices:    {name: "external-services", comment: "the service of an address for outside", key: frontType, data: frontType},
	nodePortServices:    {name: "nodeport-services", comment: "the service of a node port", key: nodePortType, data: frontType},
	clusterEndpoints:    {name: "endpoints", comment: "endpoints by service and number", key: numberedType, data: targetType},
	localEndpoints:      {name: "local-endpoints", comment: "endpoints of the traffic policy Local", key: numberedType, data: targetType},
	clusterMembers:      {name: "members", comment: "endpoints of services with affinity", key: memberType},
	localMembers:        {name: "local-members", comment: "the same, of the traffic policy Local", key: memberType},
	hairpinConnections:  {name: "hairpin-connections", comment: "endpoints that may ask themselves", key: hairpinType},
	nodePortIPs:         {name: "nodeport-ips", comment: "addresses that serve node ports", key: addressAnd()},
}

func (id setID) String() string { return definitions[id].name }

// setType joins types; a single one is itself.
func setType(list []nft.SetDatatype) nft.SetDatatype {
	if len(list) == 1 {
		return list[0]
	}
	return nft.MustConcatSetType(list...)
}

// set is the definition as netlink has it.
func (f *family) set(id setID) *nft.Set {
	d := definitions[id]
	s := &nft.Set{Table: f.table, Name: d.name, Comment: d.comment, KeyType: setType(d.key(f)), Concatenation: len(d.key(f)) > 1}
	switch {
	case d.verdicts:
		s.IsMap, s.DataType = true, nft.TypeVerdict
	case d.data != nil:
		s.IsMap, s.DataType = true, setType(d.data(f))
	}
	return s
}

// affinitySize bounds how many clients a service's port remembers; of more the oldest
// entries have to end first, and their clients get any endpoint.
const affinitySize = 65535

// affinityMap remembers which endpoint a client of a port was sent to.
func (f *family) affinityMap(c chain) *nft.Set {
	return &nft.Set{
		Table: f.table, Name: c.affinity, KeyType: f.address, IsMap: true, DataType: setType(targetType(f)),
		HasTimeout: true, Dynamic: true, Timeout: c.timeout, Size: affinitySize,
	}
}

// item is an element of a set or map without its value: the set and the key. It is
// comparable and its order groups the elements of a set.
type item string

func newItem(set setID, key []byte) item { return item(append([]byte{byte(set)}, key...)) }

func (i item) set() setID  { return setID(i[0]) }
func (i item) key() []byte { return []byte(i[1:]) }
