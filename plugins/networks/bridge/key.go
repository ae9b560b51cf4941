package bridge

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"golang.zx2c4.com/wireguard/wgctrl/wgtypes"
)

const (
	// keyFile has the private key of this node: its owner alone reads it.
	keyFile = "wireguard-key"
	// mostKeyFile bounds it, in bytes.
	mostKeyFile = 256
)

// ownKey is this node's private key, which is made where there is none. Errors never have a part of it.
func ownKey(state string) (wgtypes.Key, error) {
	file := filepath.Join(state, keyFile)
	info, err := os.Lstat(file)
	if errors.Is(err, fs.ErrNotExist) {
		key, err := wgtypes.GeneratePrivateKey()
		if err == nil {
			err = writeWhole(file, []byte(key.String()+"\n"))
		}
		if err != nil {
			return wgtypes.Key{}, fmt.Errorf("make this node's key: %w", err)
		}
		return key, nil
	}
	var data []byte
	switch {
	case err != nil:
	case !info.Mode().IsRegular() || info.Mode().Perm()&0o077 != 0 || info.Size() > mostKeyFile:
		err = fmt.Errorf("want a file of %d bytes at most that its owner alone can read, not one of %d bytes with the mode %s", mostKeyFile, info.Size(), info.Mode())
	default:
		data, err = os.ReadFile(file)
	}
	if err != nil {
		return wgtypes.Key{}, fmt.Errorf("read this node's key, %s: %w; delete it, and the next start makes another", file, err)
	}
	key, fault := wgtypes.ParseKey(strings.TrimSpace(string(data)))
	if fault != nil || key == (wgtypes.Key{}) {
		return wgtypes.Key{}, fmt.Errorf("read this node's key, %s: it is no key of WireGuard; delete it, and the next start makes another", file)
	}
	return key, nil
}

func removeKey(state string) error {
	for _, file := range []string{keyFile, keyFile + unfinished} {
		if err := os.Remove(filepath.Join(state, file)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("remove this node's key: %w", err)
		}
	}
	return nil
}

// readKey reads the public key that a Node says, and says what is wrong with it.
func readKey(text string) (key wgtypes.Key, fault string) {
	if text == "" {
		return key, "its Node has no public key yet (annotation network.pintle.dev/public-key); the backend of its network has to be " + WireGuard
	}
	key, err := wgtypes.ParseKey(text)
	if err != nil || key == (wgtypes.Key{}) || key.String() != text {
		return wgtypes.Key{}, fmt.Sprintf("its public key %.64q is none", text)
	}
	return key, ""
}
