package nftables

import (
	"crypto/sha256"
	"encoding/base32"
	"encoding/binary"
	"regexp"
	"strings"

	"pintle.dev/pintle/plugins/proxies/serviceport"
)

// readable is what may stand in a name as it is: the words that the API lets through.
var readable = regexp.MustCompile(`^[a-z0-9]([a-z0-9.-]{0,61}[a-z0-9])?$`)

// baseName is unique for each port of each service. It starts with a hash of all parts, each
// with its length, so that no two services meet in one name whatever their names are made of.
// Where the parts are plain it goes on with them, for those who read the table; else the hash
// is the whole name. It has at most 216 characters; the kernel takes 255.
func baseName(id serviceport.ID) string {
	parts := []string{id.Namespace, id.Name.Name, strings.ToLower(id.Protocol), id.Port}
	h := sha256.New()
	for _, p := range parts {
		h.Write(binary.BigEndian.AppendUint64(nil, uint64(len(p))))
		h.Write([]byte(p))
	}
	hash := base32.StdEncoding.WithPadding(base32.NoPadding).EncodeToString(h.Sum(nil))
	for i, p := range parts {
		if unnamed := i == len(parts)-1 && p == ""; !unnamed && !readable.MatchString(p) {
			return hash + "/"
		}
	}
	return hash[:16] + "-" + strings.Join(parts, "/")
}

// ofPort reports whether a chain belongs to one port of one service: those of the layout and
// those that services share have no slash.
func ofPort(name string) bool { return strings.Contains(name, "/") }
