package gateway

import gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

// grants are what ReferenceGrants say: by who refers from where, and what is there.
type grants map[grantKey]bool

// grantKey has no name where all of a kind may be referred to.
type grantKey struct {
	fromGroup, fromKind, from string
	toGroup, toKind, to, name string
}

func grantsOf(all []Grant) grants {
	out := grants{}
	for _, g := range all {
		for _, f := range g.Spec.From {
			for _, t := range g.Spec.To {
				name := ""
				if t.Name != nil {
					if name = string(*t.Name); name == "" {
						continue
					}
				}
				out[grantKey{string(f.Group), string(f.Kind), string(f.Namespace), string(t.Group), string(t.Kind), g.Namespace, name}] = true
			}
		}
	}
	return out
}

// permit reports whether an object of a namespace may refer to another. Within a namespace
// it may.
func (g grants) permit(fromGroup string, fromKind gatewayv1.Kind, from, toGroup, toKind, to, name string) bool {
	if from == to {
		return true
	}
	key := grantKey{fromGroup, string(fromKind), from, toGroup, toKind, to, ""}
	if g[key] {
		return true
	}
	key.name = name
	return g[key]
}
