package journal

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"hash/crc32"
)

// checksumSize is the length of the text in front of a framed value: eight hex
// digits and a space.
const checksumSize = 9

// hashSize is how many bytes of a SHA-256 link an entry to the one before it.
const hashSize = 16

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// frame returns payload with its CRC32C in front, as text: eight hex digits, a
// space, the payload. The checksum covers key too, so a value that ends up
// under another key is found out.
func frame(key, payload []byte) []byte {
	value := make([]byte, 0, checksumSize+len(payload))
	value = fmt.Appendf(value, "%08x ", checksum(key, payload))
	return append(value, payload...)
}

// unframe returns the payload of value, or ErrChecksum if value is not what
// frame made for that key. The payload shares the memory of value.
func unframe(key, value []byte) ([]byte, error) {
	if len(value) < checksumSize {
		return nil, fmt.Errorf("%w: %d bytes are too short for one", ErrChecksum, len(value))
	}
	payload := value[checksumSize:]
	var want [checksumSize]byte
	if !bytes.Equal(fmt.Appendf(want[:0], "%08x ", checksum(key, payload)), value[:checksumSize]) {
		return nil, ErrChecksum
	}
	return payload, nil
}

func checksum(key, payload []byte) uint32 {
	return crc32.Update(crc32.Checksum(key, castagnoli), castagnoli, payload)
}

// entryHash is what the next entry carries as Prev: the first hashSize bytes of
// the SHA-256 over key and stored value, in hex.
func entryHash(key, value []byte) string {
	h := sha256.New()
	h.Write(key)
	h.Write(value)
	return hex.EncodeToString(h.Sum(nil)[:hashSize])
}

// entryKey is the key of an entry: its sequence number, big-endian, so that
// bbolt's order is the order of the entries.
func entryKey(seq uint64) []byte {
	return binary.BigEndian.AppendUint64(nil, seq)
}

// keySeq is the inverse of entryKey.
func keySeq(key []byte) (uint64, error) {
	if len(key) != 8 {
		return 0, fmt.Errorf("key %x is no sequence number", key)
	}
	return binary.BigEndian.Uint64(key), nil
}

// chunkKey is the key of one piece of evidence: the sequence number of its
// entry and the number of the piece.
func chunkKey(seq uint64, n int) []byte {
	return binary.BigEndian.AppendUint16(entryKey(seq), uint16(n))
}

// splitChunkKey is the inverse of chunkKey.
func splitChunkKey(key []byte) (seq uint64, n int, err error) {
	if len(key) != 10 {
		return 0, 0, fmt.Errorf("key %x is no piece of evidence", key)
	}
	return binary.BigEndian.Uint64(key), int(binary.BigEndian.Uint16(key[8:])), nil
}

var errNewer = errors.New("written by a newer version")
