package podnat

import (
	"crypto/sha256"
	"fmt"
	"slices"

	nft "github.com/google/nftables"
	"github.com/google/nftables/expr"
	"github.com/google/nftables/userdata"
)

// shape is a table as it has to be.
type shape struct {
	name   string
	family *family
	maps   []*addressMap
	chains []*chain // those that are jumped to come first
}

// addressMap leads keys to addresses with ports.
type addressMap struct {
	name, comment string
	key, data     []nft.SetDatatype
	elements      map[string]string
}

// chain is a chain with its rules; a base chain has a hook.
type chain struct {
	name     string
	kind     nft.ChainType
	hook     *nft.ChainHook
	priority nft.ChainPriority
	rules    []rule
}

// rule is what one rule does, and the comment by which it is known again: rules of other
// meaning have other comments.
type rule struct {
	comment string
	exprs   []expr.Any
}

// maxComment bounds comments, in bytes; the kernel's programs take 128.
const maxComment = 120

// does joins expressions to a rule. Of a long comment the end is a digest of the whole.
func does(comment string, parts ...[]expr.Any) rule {
	if len(comment) > maxComment {
		digest := fmt.Sprintf(" %x", sha256.Sum256([]byte(comment)))[:17]
		comment = comment[:maxComment-len(digest)] + digest
	}
	return rule{comment, slices.Concat(parts...)}
}

func (s *shape) table() *nft.Table { return &nft.Table{Name: s.name, Family: s.family.table} }

func (s *shape) set(m *addressMap) *nft.Set {
	return &nft.Set{
		Table: s.table(), Name: m.name, Comment: m.comment, IsMap: true, Concatenation: true,
		KeyType: nft.MustConcatSetType(m.key...), DataType: nft.MustConcatSetType(m.data...),
	}
}

func (c *chain) chain(t *nft.Table) *nft.Chain {
	out := &nft.Chain{Name: c.name, Table: t}
	if c.hook != nil {
		out.Type, out.Hooknum, out.Priority = c.kind, c.hook, &c.priority
	}
	return out
}

// like says that a chain of the kernel is called where this one is.
func (c *chain) like(is *nft.Chain) bool {
	if c.hook == nil {
		return is.Hooknum == nil
	}
	return is.Hooknum != nil && *is.Hooknum == *c.hook && is.Type == c.kind &&
		is.Priority != nil && *is.Priority == c.priority && (is.Policy == nil || *is.Policy == nft.ChainPolicyAccept)
}

func jump(to string) []expr.Any { return one(&expr.Verdict{Kind: expr.VerdictJump, Chain: to}) }

// data is the comment as the kernel keeps it.
func (r rule) data() []byte { return userdata.AppendString(nil, userdata.TypeComment, r.comment) }
