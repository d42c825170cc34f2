set -eu
mkdir -p "$MODEL_WORK/published"
cp "$MODEL_WORK/candidate/model.txt" "$MODEL_WORK/published/.$AXD_FENCING_TOKEN"
mv "$MODEL_WORK/published/.$AXD_FENCING_TOKEN" "$MODEL_WORK/published/model.txt"
cp "$MODEL_WORK/candidate/accuracy.txt" "$MODEL_WORK/published/accuracy.txt"
echo "published with accuracy $(cat "$MODEL_WORK/published/accuracy.txt")"
